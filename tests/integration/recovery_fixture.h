// Clusters that lose processes and get others: what tests of recovery have in common.
#pragma once

#include <signal.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/child_process.h"
#include "runtime/base/deadline.h"
#include "runtime/client/session.h"
#include "runtime/plan/program.h"
#include "tests/integration/services_fixture.h"

namespace lockstep::testing {

// Three workers that are processes, for they are to be killed. The controller is the test's choice.
class RecoveryFixture : public ServicesFixture {
 protected:
  static constexpr int kWorkers = 3;

  void TearDown() override {
    sessions_.clear();
    ServicesFixture::TearDown();
    for (ChildProcess& process : processes_) {
      EXPECT_TRUE(process.Wait(Deadline::After(kLong)).ok());
    }
  }

  controller::ControllerOptions Options() const {
    controller::ControllerOptions options;
    options.workers = kWorkers;
    options.client_endpoint = IpcEndpoint("clients");
    options.worker_endpoint = IpcEndpoint("workers");
    options.liveness_endpoint = IpcEndpoint("liveness");
    options.heartbeat_interval = std::chrono::milliseconds(50);
    options.worker_timeout = std::chrono::seconds(3);
    return options;
  }
  static ChildProcess StartProcess(const std::string& role,
                                   const std::vector<std::string>& settings) {
    ChildOptions options;
    options.argv = {*FindProgram("lockstep-" + role, "NOT_SET", "services/" + role)};
    for (const std::string& setting : settings) {
      options.argv.insert(options.argv.end(), {"--set", setting});
    }
    return *ChildProcess::Spawn(options);
  }
  ChildProcess StartWorkerProcess(Rank rank) {
    std::vector<std::string> settings = {"controller_endpoint=" + IpcEndpoint("workers"),
                                         "rank=" + std::to_string(rank), "arena_bytes=64MiB",
                                         "join_timeout=30s"};
    settings.insert(settings.end(), worker_settings_.begin(), worker_settings_.end());
    return StartProcess("worker", settings);
  }
  void StartWorkers() {
    for (Rank rank = 0; rank < kWorkers; ++rank) processes_.push_back(StartWorkerProcess(rank));
  }
  void Kill(Rank rank) {
    ChildProcess& process = processes_[static_cast<size_t>(rank)];
    process.Signal(SIGKILL);
    ASSERT_TRUE(process.Wait(Deadline::After(kLong)).ok());
  }
  // What was there before has been waited for.
  void Replace(Rank rank) { processes_[static_cast<size_t>(rank)] = StartWorkerProcess(rank); }

  SessionOptions Patient() const {
    SessionOptions options;
    options.endpoint = IpcEndpoint("clients");
    options.connect_timeout = kLong;
    options.timeout = kLong;
    return options;
  }
  // Of a session that outlives its client.
  SessionOptions Kept() const {
    SessionOptions options = Patient();
    options.keep_for = std::chrono::seconds(20);
    return options;
  }
  Session& Open() {
    sessions_.push_back(
        std::make_unique<Session>(Unwrapped(Session::Connect(Patient(), context_))));
    return *sessions_.back();
  }
  static DRef Unwrap(StatusOr<DRef> ref) {
    EXPECT_TRUE(ref.ok()) << ref.status();
    return ref.ok() ? *std::move(ref) : DRef();
  }
  static DRef Call(Session& session, const std::string& name,
                   const std::vector<client::Argument>& arguments) {
    return Unwrap(session.CallWith(Unwrap(session.GetFunction(name)), arguments));
  }
  // Four floats, each the worker's rank.
  static DRef FullOfRank(Session& session) {
    const DRef rank = Call(session, "lockstep.worker_rank", {});
    const Shape shape{4};
    return Call(
        session, "lockstep.full",
        {client::Argument(shape), client::Argument(rank), client::Argument(DType::kFloat32)});
  }
  static std::vector<float> Elements(Session& session, const DRef& ref, Rank rank) {
    const auto value = session.DebugGet(ref, rank);
    EXPECT_TRUE(value.ok()) << value.status();
    if (!value.ok() || value->As<HostTensor>() == nullptr) return {};
    return *value->As<HostTensor>()->Elements<float>();
  }
  static std::vector<Rank> Lost(const Session& session, const DRef& ref) {
    const auto ranks = session.RanksThatLost(ref);
    EXPECT_TRUE(ranks.ok()) << ranks.status();
    return ranks.ok() ? *ranks : std::vector<Rank>();
  }
  // Every rank can reach every other.
  static void ExpectConnected(Session& session) {
    const DRef sum = Unwrap(session.AllReduce(FullOfRank(session), Reduction::kSum));
    for (Rank rank = 0; rank < kWorkers; ++rank) {
      EXPECT_THAT(Elements(session, sum, rank), ::testing::Each(0.0f + 1.0f + 2.0f));
    }
  }
  // Binds a program twice, the second time by its key, and executes it.
  static void BindTwice(Session& session) {
    const plan::Layout layout = *plan::Layout::Make(
        {1}, DType::kInt64, *plan::Mesh::Line({0, 1, 2}), {plan::Placement::Replicate()});
    plan::ProgramBuilder builder;
    builder.Output("y", builder.Call("lockstep.full",
                                     {plan::Pass(Shape({1})), plan::Pass(int64_t{7}),
                                      plan::Pass(DType::kInt64)},
                                     layout));
    const plan::Program program = *builder.Build();
    for (int i = 0; i < 2; ++i) {
      StatusOr<BoundPlan> plan = session.Bind(program, {});
      ASSERT_TRUE(plan.ok()) << plan.status();
      EXPECT_EQ(plan->Execute(), OkStatus());
      const auto collected = session.Collect(*plan->Output("y"));
      ASSERT_TRUE(collected.ok()) << collected.status();
      EXPECT_EQ(*collected, HostTensor::Of<int64_t>({1}, std::vector<int64_t>{7}));
    }
  }
  static void Recover(Session& session) {
    EXPECT_EQ(session.AwaitWorkers(kLong), OkStatus());
    EXPECT_EQ(session.Reset(), OkStatus());
  }

  std::vector<std::string> worker_settings_;
  std::vector<ChildProcess> processes_;  // the workers, by rank
  std::vector<std::unique_ptr<Session>> sessions_;
};

}  // namespace lockstep::testing
