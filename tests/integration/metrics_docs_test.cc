// What controller and workers export, as processes that have done some of everything: it is what
// docs/metrics.md says, Prometheus' own checker has nothing to complain of, and the numbers are
// right where they can be known.

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/deadline.h"
#include "runtime/client/admin.h"
#include "runtime/client/session.h"
#include "runtime/plan/program.h"
#include "services/local/cluster_config.h"
#include "services/local/cluster_processes.h"
#include "services/local/temporary_directory.h"
#include "tests/integration/exported_metrics.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;

constexpr int kWorkers = 4;
constexpr int kAllReduces = 10;
constexpr int kElements = 1000;
constexpr int kCalls = 20;
constexpr int kFragmentCalls = 1000;
constexpr char kFakeCompiler[] = "tests/unit/runtime/fragment/testdata/fake_compiler";

class MetricsDocsTest : public ::testing::Test {
 protected:
  // One cluster for all tests: they only read.
  static void SetUpTestSuite() {
    cluster_ = new Cluster;
    ASSERT_NO_FATAL_FAILURE(cluster_->Start());
    ASSERT_NO_FATAL_FAILURE(cluster_->Work());
  }
  static void TearDownTestSuite() {
    if (cluster_->processes != nullptr) {
      EXPECT_EQ(cluster_->processes->Stop("the tests are over"), OkStatus());
    }
    delete cluster_;
  }

  struct Cluster {
    std::unique_ptr<local::TemporaryDirectory> directory;
    std::unique_ptr<local::ClusterProcesses> processes;
    std::string controller;
    std::vector<std::string> workers;

    void Start();
    void Work();
    // Binds one program in two sessions, twice in each.
    void BindPrograms(Session& session) const;
    // One fragment in two sessions, in the first one in a loop.
    void ExecuteFragments(Session& session) const;
    // Every collective once, but for allreduce, which is there kAllReduces times.
    static void Collect(Session& session);
  };

  static std::vector<MetricFamily> Export(const std::string& endpoint) {
    return ReadMetrics(FetchMetrics(endpoint));
  }
  // The value of a sample; -1 if there is none.
  static double Sample(const std::string& endpoint, const std::string& name) {
    for (const MetricFamily& family : Export(endpoint)) {
      const auto found = family.samples.find(name);
      if (found != family.samples.end()) return found->second;
    }
    return -1;
  }
  static double WorkerSample(Rank rank, const std::string& name) {
    return Sample(cluster_->workers[static_cast<size_t>(rank)], name);
  }

  static Cluster* cluster_;
};

MetricsDocsTest::Cluster* MetricsDocsTest::cluster_ = nullptr;

void MetricsDocsTest::Cluster::Start() {
  auto made = local::TemporaryDirectory::Create();
  ASSERT_TRUE(made.ok()) << made.status();
  directory = *std::move(made);
  local::ClusterProcessesOptions options;
  options.directory = directory->path();
  auto config = local::LoadCluster(
      {"",
       {"workers=" + std::to_string(kWorkers), "controller.metrics_endpoint=http://127.0.0.1:*",
        "worker.metrics_endpoint=http://127.0.0.1:*", "worker.arena_bytes=256MiB",
        "controller.heartbeat_interval=50ms",
        // A stand-in, which compiles nothing.
        "worker.compiler=" + std::filesystem::absolute(kFakeCompiler).string(),
        "worker.fragment_cache=" + directory->path() + "/objects"}});
  ASSERT_TRUE(config.ok()) << config.status();
  options.cluster = *std::move(config);
  auto started = local::ClusterProcesses::Start(options);
  ASSERT_TRUE(started.ok()) << started.status();
  processes = *std::move(started);
  const auto status = GetClusterStatus(processes->endpoint(), 10s);
  ASSERT_TRUE(status.ok()) << status.status();
  controller = status->metrics_endpoint;
  for (const WorkerStatus& worker : status->workers) workers.push_back(worker.metrics_endpoint);
}

void MetricsDocsTest::Cluster::Collect(Session& session) {
  const auto source = session.Empty(Shape({kElements}), DType::kFloat32);
  ASSERT_TRUE(source.ok());
  for (int i = 0; i < kAllReduces; ++i) {
    ASSERT_TRUE(session.AllReduce(*source, Reduction::kSum).ok());
  }
  ASSERT_TRUE(session.Reduce(*source, Reduction::kSum).ok());
  ASSERT_TRUE(session.Broadcast(*source, 0).ok());
  ASSERT_TRUE(session.Scatter(*source, 0).ok());
  ASSERT_TRUE(session.Gather(*source, 0).ok());
  ASSERT_TRUE(session.AllGather(*source).ok());
  ASSERT_TRUE(session.ReduceScatter(*source, Reduction::kSum).ok());
  ASSERT_TRUE(session.AllToAll(*source).ok());
  ASSERT_TRUE(session.Barrier().ok());
  ASSERT_TRUE(session.Transfer(*source, 0, 1).ok());
  ASSERT_TRUE(session.SendToNextGroup(*source).ok());
  ASSERT_TRUE(session.ReceiveFromPreviousGroup().ok());
  ASSERT_EQ(session.SyncAll(), OkStatus());
}

void MetricsDocsTest::Cluster::BindPrograms(Session& session) const {
  const plan::Layout layout = *plan::Layout::Make(
      {1}, DType::kInt64, *plan::Mesh::Line({0, 1, 2, 3}), {plan::Placement::Replicate()});
  plan::ProgramBuilder builder;
  const plan::ValueId made = builder.Make(layout);
  builder.Call("lockstep.nop", {plan::Write(made)});
  builder.Output("y", made);
  const plan::Program program = *builder.Build();
  SessionOptions options;
  options.endpoint = processes->endpoint();
  auto other = Session::Connect(options);
  ASSERT_TRUE(other.ok()) << other.status();
  for (Session* binding : {&session, &*other}) {
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(binding->Bind(program, {}).ok());
    ASSERT_EQ(binding->SyncAll(), OkStatus());
  }
  ASSERT_EQ(other->Close(), OkStatus());
}

void MetricsDocsTest::Cluster::ExecuteFragments(Session& session) const {
  const auto fragment = fragment::Fragment::Mlir("sum", "test.mlir");
  ASSERT_TRUE(fragment.ok());
  const auto numbers = session.Empty({2}, DType::kFloat64);
  ASSERT_TRUE(numbers.ok()) << numbers.status();
  const std::vector<FragmentInput> inputs = {0, {*numbers, fragment::Split::kAsPlaced, Shape{2}}};
  for (int i = 0; i < kFragmentCalls; ++i) {
    const auto sum = session.Execute(*fragment, inputs, {{fragment::Combine::kAdd, Shape{1}}});
    ASSERT_TRUE(sum.ok()) << sum.status();
  }
  ASSERT_EQ(session.SyncAll(), OkStatus());
  SessionOptions options;
  options.endpoint = processes->endpoint();
  auto other = Session::Connect(options);
  ASSERT_TRUE(other.ok()) << other.status();
  ASSERT_TRUE(other->Compile(*fragment).ok());
  ASSERT_EQ(other->Close(), OkStatus());
}

void MetricsDocsTest::Cluster::Work() {
  SessionOptions options;
  options.endpoint = processes->endpoint();
  options.num_groups = 2;
  auto session = Session::Connect(options);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_NO_FATAL_FAILURE(Collect(*session));
  ASSERT_NO_FATAL_FAILURE(BindPrograms(*session));
  ASSERT_NO_FATAL_FAILURE(ExecuteFragments(*session));
  const auto nop = session->GetFunction("lockstep.nop");
  const auto fail = session->GetFunction("lockstep.fail");
  ASSERT_TRUE(nop.ok() && fail.ok());
  for (int i = 0; i < kCalls; ++i) ASSERT_TRUE(session->Call(*nop).ok());
  const auto copied = session->CopyToWorker0(HostTensor::Of<int64_t>({2}, {1, 2}));
  ASSERT_TRUE(copied.ok()) << copied.status();
  ASSERT_TRUE(session->DebugGet(*copied, 0).ok());
  ASSERT_EQ(session->Name(*copied, "kept"), OkStatus());
  ASSERT_EQ(session->SyncAll(), OkStatus());
  ASSERT_TRUE(session->Call(*fail, "as it is meant to", 2).ok());
  ASSERT_EQ(session->SyncAll().code(), StatusCode::kInternal);
  ASSERT_EQ(session->Reset(), OkStatus());
  ASSERT_EQ(session->SyncAll(), OkStatus());
  ASSERT_EQ(session->Close(), OkStatus());
  // What the controller serves may be 0.3 s old, and waits for heartbeats.
  const std::string skews = "lockstep_collective_skew_seconds_count{operation=\"allreduce\"}";
  const Deadline deadline = Deadline::After(30s);
  const auto is_told = [&] {
    return Sample(controller, "lockstep_ordered_batches_total") > 0 &&
           Sample(controller, "lockstep_sessions") == 0 && Sample(controller, skews) >= kAllReduces;
  };
  while (!is_told() && !deadline.Expired()) std::this_thread::sleep_for(10ms);
}

TEST_F(MetricsDocsTest, ThePageShowsWhatTheControllerExports) {
  ExpectDocumented(Export(cluster_->controller), "## The controller");
}

TEST_F(MetricsDocsTest, ThePageShowsWhatAWorkerExports) {
  ExpectDocumented(Export(cluster_->workers[0]), "## A worker");
}

TEST_F(MetricsDocsTest, LabelsHaveTheValuesOnThePage) {
  std::map<std::string, std::string> rows;
  for (const std::string& row : RowsOfSection(MetricsPage(), "## Labels")) {
    const size_t end = row.find('`', 3);
    rows[row.substr(3, end - 3)] = row.substr(end);
  }
  std::vector<std::string> endpoints = cluster_->workers;
  endpoints.push_back(cluster_->controller);
  std::set<std::string> seen;
  for (const std::string& endpoint : endpoints) {
    for (const MetricFamily& family : Export(endpoint)) {
      for (const auto& [label, values] : family.labels) {
        seen.insert(label);
        for (const std::string& value : values) {
          if (label == "rank") {
            EXPECT_LT(std::atoi(value.c_str()), kWorkers);
          } else if (label != "version") {
            EXPECT_NE(rows[label].find("`" + value + "`"), std::string::npos)
                << family.name << "{" << label << "=\"" << value << "\"}";
          }
        }
      }
    }
  }
  for (const auto& [label, row] : rows) EXPECT_TRUE(seen.count(label) == 1) << label;
}

TEST_F(MetricsDocsTest, PromtoolHasNothingToComplainOf) {
  std::vector<std::string> endpoints = cluster_->workers;
  endpoints.push_back(cluster_->controller);
  ExpectNoComplaintsOfPromtool(endpoints, cluster_->directory->path());
}

TEST_F(MetricsDocsTest, WhatWasMovedIsCountedByItsSize) {
  constexpr double kBytes = kElements * sizeof(float);
  const std::string allreduce = "{operation=\"allreduce\",backend=\"shm\"}";
  EXPECT_EQ(WorkerSample(1, "lockstep_transfers_total" + allreduce), kAllReduces);
  EXPECT_EQ(WorkerSample(1, "lockstep_transfer_bytes_total" + allreduce), kAllReduces * kBytes);
  // 2 (n - 1) / n of it over each rank's bus.
  EXPECT_EQ(WorkerSample(1, "lockstep_transfer_bus_bytes_total" + allreduce),
            kAllReduces * kBytes * 1.5);
  EXPECT_EQ(WorkerSample(1, "lockstep_transfer_seconds_count" + allreduce), kAllReduces);
  EXPECT_GT(WorkerSample(1, "lockstep_transfer_seconds_sum" + allreduce), 0);
  const auto bytes_of = [](const std::string& operation) {
    return "lockstep_transfer_bytes_total{operation=\"" + operation + "\",backend=\"shm\"}";
  };
  // What all have together.
  EXPECT_EQ(WorkerSample(3, bytes_of("allgather")), kWorkers * kBytes);
  EXPECT_EQ(WorkerSample(3, bytes_of("gather")), kWorkers * kBytes);
  EXPECT_EQ(WorkerSample(3, bytes_of("reduce_scatter")), kBytes);
  EXPECT_EQ(WorkerSample(3, bytes_of("scatter")), kBytes);
  EXPECT_EQ(WorkerSample(3, bytes_of("all_to_all")), kBytes);
  EXPECT_EQ(WorkerSample(3, bytes_of("broadcast")), kBytes);
  EXPECT_EQ(WorkerSample(3, bytes_of("barrier")), 0);
  EXPECT_EQ(WorkerSample(1, bytes_of("transfer")), kBytes);
  EXPECT_EQ(WorkerSample(3, bytes_of("transfer")), -1) << "rank 3 had no part in it";
}

TEST_F(MetricsDocsTest, ClientsTellWhatTheyHaveCopied) {
  const std::string to = "{operation=\"copy_to_worker\"}";
  EXPECT_EQ(Sample(cluster_->controller, "lockstep_client_copies_total" + to), 1);
  EXPECT_EQ(Sample(cluster_->controller, "lockstep_client_copy_bytes_total" + to), 16);
  EXPECT_EQ(
      Sample(cluster_->controller, "lockstep_client_copies_total{operation=\"copy_from_worker\"}"),
      0);
}

TEST_F(MetricsDocsTest, CommandsAreCountedByKind) {
  for (const Rank rank : {0, 3}) {
    EXPECT_EQ(WorkerSample(rank, "lockstep_commands_total{kind=\"collective\"}"), kAllReduces + 11);
    EXPECT_EQ(WorkerSample(rank, "lockstep_commands_total{kind=\"reset\"}"), 1);
    EXPECT_EQ(WorkerSample(rank,
                           "lockstep_command_stage_seconds_count{kind=\"collective\","
                           "stage=\"executing\"}"),
              kAllReduces + 11);
    EXPECT_GT(WorkerSample(rank,
                           "lockstep_command_stage_seconds_count{kind=\"sync\","
                           "stage=\"transit\"}"),
              0)
        << "the controller is on the same host";
  }
  // The others may have been told to skip the call that fails.
  EXPECT_EQ(WorkerSample(2, "lockstep_commands_total{kind=\"call\"}"), kCalls + 1);
  EXPECT_GT(Sample(cluster_->controller, "lockstep_request_seconds_count"), 0);
}

TEST_F(MetricsDocsTest, ErrorsAbortsAndResetsAreCounted) {
  const std::string& controller = cluster_->controller;
  EXPECT_EQ(Sample(controller, "lockstep_errors_total{code=\"INTERNAL\"}"), 1);
  EXPECT_EQ(Sample(controller, "lockstep_errors_total{code=\"NOT_FOUND\"}"), 0);
  EXPECT_EQ(Sample(controller, "lockstep_aborts_total"), 1);
  EXPECT_EQ(Sample(controller, "lockstep_resets_total"), 1);
  EXPECT_EQ(Sample(controller, "lockstep_sessions_opened_total"), 3);
  EXPECT_EQ(WorkerSample(2, "lockstep_worker_errors_total{code=\"INTERNAL\"}"), 1);
  EXPECT_EQ(WorkerSample(1, "lockstep_worker_errors_total{code=\"INTERNAL\"}"), 0);
  EXPECT_GE(WorkerSample(1, "lockstep_worker_aborts_total"), 1);
}

TEST_F(MetricsDocsTest, AProgramIsLoweredOnceForAllSessions) {
  const std::string programs = "{cache=\"programs\"}";
  for (const Rank rank : {0, 3}) {
    EXPECT_EQ(WorkerSample(rank, "lockstep_plan_cache_misses_total" + programs), 1);
    EXPECT_EQ(WorkerSample(rank, "lockstep_plan_cache_hits_total" + programs), 3);
    EXPECT_EQ(WorkerSample(rank, "lockstep_plan_cache_evictions_total" + programs), 0);
    EXPECT_EQ(WorkerSample(rank, "lockstep_plan_cache_entries" + programs), 1);
    EXPECT_GT(WorkerSample(rank, "lockstep_plan_cache_bytes" + programs), 0);
    EXPECT_EQ(WorkerSample(rank, "lockstep_plan_cache_entries{cache=\"reshards\"}"), 0);
  }
}

// However often it is called, and on however many workers of a host.
TEST_F(MetricsDocsTest, AFragmentIsCompiledOnceForAHost) {
  double compiles = 0;
  double found_on_disk = 0;
  for (int rank = 0; rank < kWorkers; ++rank) {
    compiles += WorkerSample(rank, "lockstep_fragment_compiles_total");
    found_on_disk += WorkerSample(rank, "lockstep_fragment_cache_hits_total{where=\"disk\"}");
    EXPECT_EQ(WorkerSample(rank, "lockstep_fragment_cache_hits_total{where=\"memory\"}"), 1)
        << "of the second session";
    EXPECT_EQ(WorkerSample(rank, "lockstep_commands_total{kind=\"run_fragment\"}"), kFragmentCalls);
    EXPECT_EQ(WorkerSample(rank, "lockstep_fragments_loaded"), 1);
    EXPECT_EQ(WorkerSample(rank, "lockstep_fragment_failures_total"), 0);
  }
  EXPECT_EQ(compiles, 1);
  EXPECT_EQ(found_on_disk, kWorkers - 1);
}

TEST_F(MetricsDocsTest, EveryCollectiveHasOneThatCameLast) {
  double last = 0;
  for (int rank = 0; rank < kWorkers; ++rank) {
    last += Sample(cluster_->controller,
                   "lockstep_collective_last_total{operation=\"allreduce\",rank=\"" +
                       std::to_string(rank) + "\"}");
  }
  EXPECT_EQ(last, kAllReduces);
  EXPECT_EQ(Sample(cluster_->controller,
                   "lockstep_collective_skew_seconds_count{operation=\"allreduce\"}"),
            kAllReduces);
}

}  // namespace
}  // namespace lockstep::testing
