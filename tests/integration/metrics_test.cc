// What a monitoring system reads of a controller that runs.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include "runtime/base/deadline.h"
#include "runtime/client/session.h"
#include "tests/integration/services_fixture.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr size_t kWindow = size_t{64} << 10;

class MetricsTest : public ServicesFixture {
 protected:
  void StartController(int workers) {
    controller::ControllerOptions options;
    options.workers = workers;
    options.client_endpoint = IpcEndpoint("clients");
    options.worker_endpoint = IpcEndpoint("workers");
    options.liveness_endpoint = IpcEndpoint("liveness");
    options.metrics_endpoint = "http://127.0.0.1:*";
    options.flow_window_bytes = kWindow;
    options.max_batch_bytes = kWindow;
    ServicesFixture::StartController(options);
  }
  worker::Worker& StartWorker(int rank) {
    worker::WorkerOptions options = SmallWorker(rank);
    options.controller_endpoint = IpcEndpoint("workers");
    options.metrics_endpoint = "http://127.0.0.1:*";
    options.compiler =
        std::filesystem::absolute("tests/unit/runtime/fragment/testdata/fake_compiler");
    return ServicesFixture::StartWorker(options);
  }
  static httplib::Response GetFrom(const std::string& endpoint, const std::string& path) {
    auto result = httplib::Client(endpoint).Get(path);
    EXPECT_TRUE(result) << to_string(result.error());
    return result ? result.value() : httplib::Response();
  }
  httplib::Response Get(const std::string& path) const {
    return GetFrom(controller_->metrics_endpoint(), path);
  }
  // The value of the sample whose line begins with `name`; -1 if there is none.
  double Sample(const std::string& name) const {
    return SampleFrom(controller_->metrics_endpoint(), name);
  }
  static double SampleFrom(const std::string& endpoint, const std::string& name) {
    const std::string text = "\n" + GetFrom(endpoint, "/metrics").body;
    const size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::strtod(&text[at + name.size() + 2], nullptr);
  }
  // What is served may be 0.3 s old.
  template <typename Holds>
  bool Soon(Holds holds) const {
    const Deadline deadline = Deadline::After(kLong);
    while (!holds()) {
      if (deadline.Expired()) return false;
      std::this_thread::sleep_for(5ms);
    }
    return true;
  }
};

TEST_F(MetricsTest, ReadinessNamesWhoIsMissing) {
  StartController(2);
  StartWorker(1);
  EXPECT_TRUE(Soon([&] { return Sample("lockstep_workers{state=\"waiting\"}") == 1; }));
  EXPECT_EQ(Get("/healthz").status, 200);
  EXPECT_EQ(Get("/readyz").status, 503);
  EXPECT_THAT(Get("/readyz").body, HasSubstr("ranks 0, 1 (joining)"));
  StartWorker(0);
  EXPECT_TRUE(Soon([&] { return Get("/readyz").status == 200; }));
  EXPECT_EQ(Sample("lockstep_workers{state=\"ready\"}"), 2);
}

TEST_F(MetricsTest, ASessionThatIsAheadIsSeenWithinItsBudget) {
  StartController(2);
  StartWorker(0);
  StartWorker(1);
  SessionOptions options;
  options.endpoint = IpcEndpoint("clients");
  options.connect_timeout = kLong;
  options.timeout = 300ms;
  Session session = Unwrapped(Session::Connect(options, context_));
  EXPECT_EQ(Sample("lockstep_flow_window_bytes"), kWindow);
  const auto sleep = session.GetFunction("lockstep.sleep");
  const auto nop = session.GetFunction("lockstep.nop");
  ASSERT_TRUE(sleep.ok() && nop.ok());

  ASSERT_TRUE(session.Call(*sleep, 3600.0, 1).ok());
  const Bytes some{std::string(1000, 'x')};
  lockstep::Status status;
  while (status.ok()) status = session.Call(*nop, some).status();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status;

  const std::string fullest = "lockstep_flow_under_way_max_bytes";
  EXPECT_TRUE(Soon([&] { return Sample(fullest) > kWindow / 2; })) << Sample(fullest);
  // And the command that fills it up, with what its message costs.
  EXPECT_LT(Sample(fullest), kWindow + 4096);
  EXPECT_EQ(Sample("lockstep_sessions"), 1);
  EXPECT_EQ(Get("/readyz").status, 200) << "a worker that is behind still sends heartbeats";

  ASSERT_TRUE(session.Reset().ok());
  EXPECT_EQ(Get("/idlez").status, 503);
  EXPECT_EQ(GetFrom(workers_.front()->metrics_endpoint(), "/idlez").body, "open sessions: 1\n");
  ASSERT_TRUE(session.Close().ok());
  EXPECT_TRUE(Soon([&] { return Sample("lockstep_sessions") == 0; }));
  EXPECT_EQ(Get("/idlez").status, 200);
  EXPECT_EQ(GetFrom(workers_.front()->metrics_endpoint(), "/idlez").status, 200);
  EXPECT_EQ(Sample("lockstep_flow_under_way_bytes"), 0);
}

TEST_F(MetricsTest, ALoopOfAFragmentCompilesItOnceAndMovesItsDataOnce) {
  using fragment::Combine;
  using fragment::Split;
  StartController(2);
  StartWorker(0);
  StartWorker(1);
  SessionOptions options;
  options.endpoint = IpcEndpoint("clients");
  options.connect_timeout = kLong;
  Session session = Unwrapped(Session::Connect(options, context_));
  const auto sum = Unwrapped(fragment::Fragment::Mlir("sum"));
  const DRef data = Unwrapped(session.Place(
      HostTensor::Of<double>({4}, std::vector<double>{1, 2, 3, 4}),
      Unwrapped(plan::Layout::Make({4}, DType::kFloat64, Unwrapped(plan::Mesh::Line({0})),
                                   {plan::Placement::Replicate()}))));
  for (int i = 0; i < 1000; ++i) {
    const auto made =
        session.Execute(sum, {{int64_t{0}}, {data, Split::kRows}}, {{Combine::kAdd, Shape{1}}});
    ASSERT_EQ(made.status(), OkStatus());
  }
  ASSERT_EQ(session.SyncAll(), OkStatus());
  double moved = 0;
  for (const auto& worker : workers_) {
    const auto sample = [&](const std::string& name) {
      return SampleFrom(worker->metrics_endpoint(), "lockstep_fragment_" + name);
    };
    EXPECT_EQ(sample("compiles_total"), 1);
    EXPECT_EQ(sample("input_moves_total"), 1);
    moved += sample("input_bytes_total");
  }
  EXPECT_EQ(moved, 2 * sizeof(double)) << "to rank 1";
  EXPECT_EQ(moved, session.fragment_traffic().moved_bytes);
  ASSERT_EQ(session.Close(), OkStatus());
}

TEST_F(MetricsTest, AWorkerIsReadyInAWorldWhoseRanksAreConnected) {
  StartController(2);
  const worker::Worker& first = StartWorker(0);
  const auto get = [](const worker::Worker& worker, const std::string& path) {
    return GetFrom(worker.metrics_endpoint(), path);
  };
  EXPECT_EQ(get(first, "/healthz").status, 200);
  EXPECT_EQ(get(first, "/readyz").status, 503);
  EXPECT_EQ(get(first, "/startupz").status, 503) << "it was not given a rank";
  EXPECT_THAT(get(first, "/readyz").body, HasSubstr("has not joined"));
  EXPECT_EQ(SampleFrom(first.metrics_endpoint(), "lockstep_worker_rank"), -1);
  StartWorker(1);
  EXPECT_TRUE(Soon([&] { return get(first, "/readyz").status == 200; }));
  EXPECT_EQ(get(first, "/startupz").status, 200);
  EXPECT_EQ(SampleFrom(first.metrics_endpoint(), "lockstep_worker_rank"), 0);

  workers_.pop_back();
  EXPECT_TRUE(Soon([&] { return get(first, "/readyz").status == 503; }));
  EXPECT_THAT(get(first, "/readyz").body, HasSubstr("a worker of the cluster is lost"));
  EXPECT_EQ(get(first, "/healthz").status, 200) << "starting it again would mend nothing";
}

TEST_F(MetricsTest, AWorkerTellsOfItsRegistersAndItsProgress) {
  StartController(1);
  const std::string worker = StartWorker(0).metrics_endpoint();
  Session session = Unwrapped(ConnectTo(IpcEndpoint("clients")));
  const auto kept = session.Empty(Shape({1000}), DType::kFloat32);
  ASSERT_TRUE(kept.ok());
  ASSERT_TRUE(session.Empty(Shape({500}), DType::kFloat32).ok());
  ASSERT_TRUE(session.SyncAll().ok());
  // What a batch has changed is told after its answer is sent.
  EXPECT_TRUE(Soon([&] {
    return SampleFrom(worker, "lockstep_registers_peak") == 2 &&
           SampleFrom(worker, "lockstep_registers") == 1;
  }));
  EXPECT_EQ(SampleFrom(worker, "lockstep_register_bytes"), 4000);
  EXPECT_EQ(SampleFrom(worker, "lockstep_register_peak_bytes"), 6000);
  EXPECT_GE(SampleFrom(worker, "lockstep_arena_live_bytes"), 4000);
  EXPECT_EQ(SampleFrom(worker, "lockstep_commands_total{kind=\"empty\"}"), 2);
  EXPECT_TRUE(Soon([&] {
    return SampleFrom(worker, "lockstep_launched_commands_total") ==
           SampleFrom(worker, "lockstep_completed_commands_total");
  }));
  ASSERT_TRUE(session.Close().ok());
}

TEST_F(MetricsTest, TheRankThatMakesTheOthersWaitIsNamed) {
  StartController(3);
  for (int rank = 0; rank < 3; ++rank) StartWorker(rank);
  Session session = Unwrapped(ConnectTo(IpcEndpoint("clients")));
  const auto sleep = session.GetFunction("lockstep.sleep");
  const auto source = session.Empty(Shape({100}), DType::kFloat32);
  ASSERT_TRUE(sleep.ok() && source.ok());
  ASSERT_TRUE(session.Barrier().ok());
  ASSERT_TRUE(session.Call(*sleep, 0.5, 2).ok());
  ASSERT_TRUE(session.AllReduce(*source, Reduction::kSum).ok());
  ASSERT_TRUE(session.SyncAll().ok());
  const auto last = [&](int rank) {
    return Sample("lockstep_collective_last_total{operation=\"allreduce\",rank=\"" +
                  std::to_string(rank) + "\"}");
  };
  EXPECT_TRUE(Soon([&] { return last(2) == 1; }));
  EXPECT_EQ(last(0), 0);
  EXPECT_GT(Sample("lockstep_collective_skew_seconds_sum{operation=\"allreduce\"}"), 0.25);
  ASSERT_TRUE(session.Close().ok());
}

TEST_F(MetricsTest, WhoeverAsksDoesNotDisturbWhoCounts) {
  constexpr int kRounds = 200;
  StartController(2);
  const std::string worker = StartWorker(0).metrics_endpoint();
  StartWorker(1);
  Session session = Unwrapped(ConnectTo(IpcEndpoint("clients")));
  const auto nop = session.GetFunction("lockstep.nop");
  const auto source = session.Empty(Shape({100}), DType::kFloat32);
  ASSERT_TRUE(nop.ok() && source.ok());
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_TRUE(session.Call(*nop).ok());
    ASSERT_TRUE(session.AllReduce(*source, Reduction::kSum).ok());
    if (i % 10 == 0) {
      ASSERT_TRUE(session.Flush().ok());
      EXPECT_LE(SampleFrom(worker, "lockstep_commands_total{kind=\"call\"}"), kRounds);
    }
  }
  ASSERT_TRUE(session.SyncAll().ok());
  EXPECT_EQ(SampleFrom(worker, "lockstep_commands_total{kind=\"call\"}"), kRounds);
  EXPECT_EQ(SampleFrom(worker, "lockstep_transfers_total{operation=\"allreduce\",backend=\"shm\"}"),
            kRounds);
  ASSERT_TRUE(session.Close().ok());
}

TEST_F(MetricsTest, AnAddressThatCannotBeHadEndsTheStart) {
  StartController(1);
  controller::ControllerOptions options;
  for (auto* endpoint :
       {&options.client_endpoint, &options.worker_endpoint, &options.liveness_endpoint}) {
    *endpoint = "tcp://127.0.0.1:*";
  }
  options.metrics_endpoint = controller_->metrics_endpoint();
  const auto second = controller::Controller::Start(options, context_);
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable) << second.status();
  EXPECT_THAT(Message(second.status()), HasSubstr(options.metrics_endpoint));
}

}  // namespace
}  // namespace lockstep::testing
