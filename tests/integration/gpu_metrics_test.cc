// What workers export of their GPUs, here fake ones: it is what docs/metrics.md says, and the
// numbers are right where they can be known.
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/deadline.h"
#include "runtime/client/admin.h"
#include "runtime/client/session.h"
#include "runtime/cuda/gpu.h"
#include "services/local/cluster_config.h"
#include "services/local/cluster_processes.h"
#include "services/local/temporary_directory.h"
#include "tests/integration/exported_metrics.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr int kElements = 1000;
constexpr int kAllReduces = 5;
constexpr double kBytes = kElements * sizeof(float);

class GpuMetricsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Status available = cuda::Available();
    if (!available.ok()) GTEST_SKIP() << Message(available);
    auto made = local::TemporaryDirectory::Create();
    ASSERT_TRUE(made.ok()) << made.status();
    directory_ = *std::move(made);
    local::ClusterProcessesOptions options;
    options.directory = directory_->path();
    auto config = local::LoadCluster(
        {"",
         {"workers=2", "worker.metrics_endpoint=http://127.0.0.1:*", "worker.device=cuda",
          "worker.device_memory_bytes=64MiB", "worker.arena_bytes=256MiB"}});
    ASSERT_TRUE(config.ok()) << config.status();
    options.cluster = *std::move(config);
    auto started = local::ClusterProcesses::Start(options);
    ASSERT_TRUE(started.ok()) << started.status();
    processes_ = *std::move(started);
    const auto status = GetClusterStatus(processes_->endpoint(), 10s);
    ASSERT_TRUE(status.ok()) << status.status();
    for (const WorkerStatus& worker : status->workers) workers_.push_back(worker.metrics_endpoint);
    SessionOptions connecting;
    connecting.endpoint = processes_->endpoint();
    auto session = Session::Connect(connecting);
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = std::make_unique<Session>(*std::move(session));
    ASSERT_NO_FATAL_FAILURE(Work());
  }
  void TearDown() override {
    tensor_ = DRef();
    session_.reset();
    if (processes_ == nullptr) return;
    EXPECT_EQ(processes_->Stop("the test is over"), OkStatus());
  }

  void Work() {
    const auto full = session_->GetFunction("lockstep.full");
    ASSERT_TRUE(full.ok());
    auto tensor = session_->Call(*full, Shape({kElements}), 1, DType::kFloat32);
    ASSERT_TRUE(tensor.ok());
    tensor_ = *std::move(tensor);
    for (int i = 0; i < kAllReduces; ++i) {
      ASSERT_TRUE(session_->AllReduce(tensor_, Reduction::kSum).ok());
    }
    ASSERT_EQ(session_->SyncAll(), OkStatus());
  }

  // The families whose names begin with this.
  std::vector<MetricFamily> Export(const std::string& prefix) {
    std::vector<MetricFamily> families = ReadMetrics(FetchMetrics(workers_[0]));
    std::erase_if(families, [&](const MetricFamily& f) { return f.name.rfind(prefix, 0) != 0; });
    return families;
  }
  std::map<std::string, double> Samples() {
    std::map<std::string, double> samples;
    for (const MetricFamily& family : Export("lockstep_")) {
      samples.insert(family.samples.begin(), family.samples.end());
    }
    return samples;
  }
  // What is seen of the GPU once a second, once it was seen with the tensor in its memory.
  std::map<std::string, double> AwaitSamples() {
    const Deadline deadline = Deadline::After(30s);
    while (true) {
      std::map<std::string, double> samples = Samples();
      if (samples["lockstep_gpu_live_bytes"] >= kBytes || deadline.Expired()) return samples;
      std::this_thread::sleep_for(20ms);
    }
  }

  std::unique_ptr<local::TemporaryDirectory> directory_;
  std::unique_ptr<local::ClusterProcesses> processes_;
  std::vector<std::string> workers_;
  std::unique_ptr<Session> session_;
  DRef tensor_;
};

TEST_F(GpuMetricsTest, ArePageAndExportTheSame) {
  AwaitSamples();
  ExpectDocumented(Export("lockstep_gpu_"), "## A GPU");
  ExpectNoComplaintsOfPromtool(workers_, directory_->path());
}

TEST_F(GpuMetricsTest, TellWhatTensorsHaveAndWhatWasMoved) {
  std::map<std::string, double> samples = AwaitSamples();
  EXPECT_GE(samples["lockstep_gpu_live_bytes"], kBytes);
  EXPECT_GE(samples["lockstep_gpu_peak_bytes"], samples["lockstep_gpu_live_bytes"]);
  EXPECT_GE(samples["lockstep_gpu_reserved_bytes"], samples["lockstep_gpu_live_bytes"]);
  EXPECT_EQ(samples["lockstep_gpu_capacity_bytes"], 64 << 20);
  EXPECT_GE(samples["lockstep_gpu_blocks"], 1);
  EXPECT_GE(samples["lockstep_gpu_allocations_total"], 1 + kAllReduces);
  const std::string allreduce = "{operation=\"allreduce\",backend=\"nccl\"}";
  EXPECT_EQ(samples["lockstep_transfers_total" + allreduce], kAllReduces);
  EXPECT_EQ(samples["lockstep_transfer_bytes_total" + allreduce], kAllReduces * kBytes);
  EXPECT_EQ(samples["lockstep_transfer_seconds_count" + allreduce], kAllReduces);
  EXPECT_GT(samples["lockstep_transfer_seconds_sum" + allreduce], 0) << "of the GPU's events";
  EXPECT_GT(samples["lockstep_gpu_host_wait_seconds_total"], 0);
}

TEST_F(GpuMetricsTest, TellWhatTheDriverSays) {
  std::map<std::string, double> samples = AwaitSamples();
  EXPECT_EQ(samples["lockstep_gpu_monitored"], 1);
  EXPECT_EQ(samples["lockstep_gpu_temperature_celsius"], 41);
  EXPECT_EQ(samples["lockstep_gpu_clock_hertz{clock=\"sm\"}"], 1980e6);
  EXPECT_EQ(samples["lockstep_gpu_ecc_errors_total{kind=\"corrected\"}"], 7);
  EXPECT_EQ(samples["lockstep_gpu_slowed{by=\"heat\"}"], 0);
  EXPECT_EQ(samples["lockstep_gpu_xids_total{xid=\"94\"}"], 1);
  const std::string text = FetchMetrics(workers_[1]);
  EXPECT_THAT(text, HasSubstr("driver=\"580.65.06\""));
  EXPECT_THAT(text, HasSubstr("nccl=\"2."));
  EXPECT_THAT(text, HasSubstr("index=\"1\"")) << "rank 1 has the second GPU of the host";
}

}  // namespace
}  // namespace lockstep::testing
