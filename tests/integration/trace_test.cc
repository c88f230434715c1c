// Timelines of whole clusters: which processes are in them, in which order, by which clock, and
// what is said of those that are missing.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/deadline.h"
#include "runtime/client/admin.h"
#include "runtime/client/chrome_trace.h"
#include "runtime/client/cluster_tracer.h"
#include "runtime/client/session.h"
#include "runtime/plan/program.h"
#include "tests/integration/process_watch.h"
#include "tests/integration/recovery_fixture.h"
#include "tests/integration/wire_client.h"
#include "tests/support/patience.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using trace::Event;
using trace::Kind;
using Role = TraceProcess::Role;

// Unwraps, or ends the test program: nothing that follows would make sense.
template <typename T>
T Get(StatusOr<T> value) {
  if (!value.ok()) {
    ADD_FAILURE() << value.status();
    std::abort();
  }
  return *std::move(value);
}

const TraceProcess& ProcessOf(const Trace& trace, Role role, Rank rank = -1) {
  for (const TraceProcess& process : trace.processes) {
    if (process.role == role && (role != Role::kWorker || process.rank == rank)) return process;
  }
  ADD_FAILURE() << "no such process in the trace";
  std::abort();
}
const TraceProcess& RankOf(const Trace& trace, Rank rank) {
  return ProcessOf(trace, Role::kWorker, rank);
}

std::vector<Event> Named(const TraceProcess& process, const std::string& name) {
  std::vector<Event> found;
  for (const TraceThread& thread : process.threads) {
    for (const Event& event : thread.events) {
      if (event.name == name) found.push_back(event);
    }
  }
  return found;
}

std::set<std::string> NamesIn(const TraceProcess& process) {
  std::set<std::string> names;
  for (const TraceThread& thread : process.threads) {
    for (const Event& event : thread.events) names.insert(event.name);
  }
  return names;
}

class TraceTest : public ServicesFixture {
 protected:
  static constexpr int kWorkers = 3;
  // Of what Ones() makes: too many to be read with an answer.
  static constexpr int64_t kElements = 5000;
  static constexpr uint64_t kBytes = kElements * sizeof(float);

  void SetUp() override {
    ServicesFixture::SetUp();
    controller::ControllerOptions options;
    options.workers = kWorkers;
    options.client_endpoint = IpcEndpoint("clients");
    options.worker_endpoint = IpcEndpoint("workers");
    options.liveness_endpoint = IpcEndpoint("liveness");
    options.heartbeat_interval = 100ms;
    options.worker_timeout = kLong;
    options.session_lease = lease_;
    StartController(options);
  }
  // Each rank's clock is ahead of that of the rank below.
  void StartWorkers(std::chrono::nanoseconds ahead = 0ns) {
    for (Rank rank = 0; rank < kWorkers; ++rank) {
      worker::WorkerOptions options = SmallWorker(rank);
      options.controller_endpoint = controller_->worker_endpoint();
      options.bulk_endpoint = IpcEndpoint("bulk" + std::to_string(rank));
      options.clock_shift = (rank + 1) * ahead;
      StartWorker(options);
    }
  }
  Session Open(bool map_memory = true) {
    SessionOptions options;
    options.endpoint = controller_->client_endpoint();
    options.connect_timeout = options.timeout = kLong;
    options.map_memory = map_memory;
    return Unwrapped(Session::Connect(options, context_));
  }
  TraceOptions Patient() const {
    TraceOptions options;
    options.timeout = kLong;
    return options;
  }
  static DRef Call(Session& session, const std::string& name,
                   const std::vector<client::Argument>& arguments = {}) {
    return Get(session.CallWith(Get(session.GetFunction(name)), arguments));
  }
  static DRef Ones(Session& session) {
    const Shape shape{kElements};
    return Call(
        session, "lockstep.full",
        {client::Argument(shape), client::Argument(1.0), client::Argument(DType::kFloat32)});
  }

  std::chrono::milliseconds lease_{20'000};
};

TEST_F(TraceTest, EverybodyIsInIt) {
  StartWorkers();
  Session session = Open(/*map_memory=*/false);
  ASSERT_EQ(session.StartTrace(Patient()), OkStatus());
  const DRef sum = Get(session.AllReduce(Ones(session), Reduction::kSum));
  (void)Get(session.CopyFromWorker0(sum));
  ASSERT_EQ(session.SyncAll(), OkStatus());
  const Trace trace = Get(session.StopTrace());

  ASSERT_EQ(trace.processes.size(), 2u + kWorkers);
  EXPECT_EQ(trace.processes[0].role, Role::kClient);
  EXPECT_EQ(trace.processes[1].role, Role::kController);
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    const TraceProcess& process = trace.processes[static_cast<size_t>(2 + rank)];
    EXPECT_EQ(process.rank, rank);
    EXPECT_EQ(process.missing, "");
    EXPECT_TRUE(process.clock_is_known);
    EXPECT_EQ(process.clock_uncertainty, 0ns) << "all read one clock here";
    const std::vector<Event> calls = Named(process, "lockstep.full");
    ASSERT_EQ(calls.size(), 1u);
    EXPECT_EQ(calls[0].kind, Kind::kCommand);
    EXPECT_EQ(calls[0].session, session.id().value);
    EXPECT_GT(calls[0].command, 0u);
    const std::vector<Event> sums = Named(process, "allreduce");
    ASSERT_EQ(sums.size(), 1u);
    EXPECT_EQ(sums[0].kind, Kind::kCollective);
    EXPECT_EQ(sums[0].bytes, kBytes);
    EXPECT_STREQ(sums[0].backend, "shm");
    EXPECT_EQ(sums[0].ranks, kWorkers);
    EXPECT_EQ(sums[0].code, 0);
    EXPECT_THAT(NamesIn(process), Contains("wait for commands"));
    EXPECT_THAT(NamesIn(process), Contains("sync"));
  }
  const std::vector<Event> reads = Named(RankOf(trace, 0), "bulk read");
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0].bytes, kBytes);
  EXPECT_THAT(NamesIn(trace.processes[0]), Contains("send batch"));
  EXPECT_THAT(NamesIn(trace.processes[0]), Contains("wait for an answer"));
  EXPECT_THAT(NamesIn(trace.processes[0]), Contains("copy by socket"));
  EXPECT_THAT(NamesIn(trace.processes[1]), Contains("order and send batch"));
  EXPECT_THAT(NamesIn(trace.processes[1]), Contains("request answered"));
}

TEST_F(TraceTest, TimesAreInTheOrderOfThings) {
  StartWorkers();
  Session session = Open();
  ASSERT_EQ(session.StartTrace(Patient()), OkStatus());
  for (int i = 0; i < 50; ++i) {
    (void)Get(session.AllReduce(Ones(session), Reduction::kSum));
    if (i % 10 == 0) {
      EXPECT_EQ(session.SyncAll(), OkStatus());
    }
  }
  ASSERT_EQ(session.SyncAll(), OkStatus());
  const Trace trace = Get(session.StopTrace());
  // No thread does two things at once.
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    const std::vector<Event>& events = RankOf(trace, rank).threads[0].events;
    for (size_t i = 1; i < events.size(); ++i) {
      ASSERT_LE(events[i].begin, events[i].end);
      ASSERT_LE(events[i - 1].end, events[i].begin) << events[i - 1].name << ", " << events[i].name;
    }
  }
  // A batch is sent by the client, then by the controller, and then executed.
  std::map<uint64_t, int64_t> sent;
  for (const Event& event : Named(trace.processes[0], "send batch")) {
    sent[event.command] = event.begin;
  }
  EXPECT_GE(sent.size(), 6u);
  std::map<uint64_t, int64_t> ordered;
  for (const Event& event : Named(trace.processes[1], "order and send batch")) {
    ASSERT_TRUE(sent.count(event.command) > 0);
    EXPECT_LE(sent[event.command], event.begin);
    ordered[event.command] = event.begin;
  }
  EXPECT_EQ(ordered.size(), sent.size());
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    size_t begun = 0;
    for (const Event& event : RankOf(trace, rank).threads[0].events) {
      const auto batch = ordered.find(event.command);
      if (batch == ordered.end()) continue;
      ++begun;
      EXPECT_LE(batch->second, event.begin);
    }
    EXPECT_EQ(begun, ordered.size());
  }
}

TEST_F(TraceTest, ClocksOfDifferentHostsAreMadeOne) {
  StartWorkers(std::chrono::hours(1));
  Session session = Open();
  const DRef ones = Ones(session);
  ASSERT_EQ(session.StartTrace(Patient()), OkStatus());
  for (int i = 0; i < 20; ++i) (void)Get(session.AllReduce(ones, Reduction::kSum));
  ASSERT_EQ(session.SyncAll(), OkStatus());
  const Trace trace = Get(session.StopTrace());
  // All have come before the first has left.
  std::map<uint64_t, std::pair<int64_t, int64_t>> collectives;  // last begin, first end
  std::chrono::nanoseconds worst = trace.clock_uncertainty();
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    EXPECT_TRUE(RankOf(trace, rank).clock_is_known);
    EXPECT_GT(RankOf(trace, rank).clock_uncertainty, 0ns);
    const std::vector<Event> sums = Named(RankOf(trace, rank), "allreduce");
    ASSERT_EQ(sums.size(), 20u);
    for (const Event& sum : sums) {
      const auto [found, is_new] = collectives.emplace(sum.command, std::pair(sum.begin, sum.end));
      if (is_new) continue;
      found->second.first = std::max(found->second.first, sum.begin);
      found->second.second = std::min(found->second.second, sum.end);
    }
  }
  EXPECT_LT(worst, 1min);
  for (const auto& [command, times] : collectives) {
    EXPECT_LE(times.first, times.second + 2 * worst.count()) << command;
  }
}

TEST_F(TraceTest, ThePartsOfAPlanLieInsideItsExecution) {
  StartWorkers();
  Session session = Open();
  const plan::Mesh mesh = *plan::Mesh::Line({0, 1});
  const auto layout_of = [&](plan::Placement placement) {
    return *plan::Layout::Make({kElements}, DType::kFloat32, mesh, {placement});
  };
  plan::ProgramBuilder program;
  const plan::ValueId sums =
      program.Input("x", layout_of(plan::Placement::Partial(Reduction::kSum)));
  const plan::ValueId whole = program.Reshard(sums, layout_of(plan::Placement::Replicate()));
  program.Call("lockstep.nop", {plan::Read(whole)});
  BoundPlan plan = Get(session.Bind(*program.Build(), {.inputs = {{"x", Ones(session)}}}));
  ASSERT_EQ(session.SyncAll(), OkStatus());
  ASSERT_EQ(session.StartTrace(Patient()), OkStatus());
  ASSERT_EQ(plan.Execute(), OkStatus());
  ASSERT_EQ(session.SyncAll(), OkStatus());
  const Trace trace = Get(session.StopTrace());
  const std::vector<Event> whole_plan = Named(RankOf(trace, 1), "execute plan");
  ASSERT_EQ(whole_plan.size(), 1u);
  for (const uint32_t number : {1, 2}) {
    std::vector<Event> steps;
    // Where there are cores for it, the allreduce is in the other lane.
    for (const TraceThread& thread : RankOf(trace, 1).threads) {
      for (const Event& event : thread.events) {
        if (event.step == number) steps.push_back(event);
      }
    }
    ASSERT_EQ(steps.size(), 1u) << number;
    EXPECT_THAT(steps[0].name, HasSubstr(number == 1 ? "allreduce, trace_test.cc:"
                                                     : "lockstep.nop, trace_test.cc:"));
    EXPECT_EQ(steps[0].command, whole_plan[0].command);
    EXPECT_LE(whole_plan[0].begin, steps[0].begin);
    EXPECT_LE(steps[0].end, whole_plan[0].end);
  }
}

TEST_F(TraceTest, ErrorsAreInIt) {
  StartWorkers();
  Session session = Open();
  ASSERT_EQ(session.StartTrace(Patient()), OkStatus());
  (void)Call(session, "lockstep.fail", {client::Argument("on purpose"), client::Argument(1)});
  ASSERT_NE(session.SyncAll(), OkStatus());
  const Trace trace = Get(session.StopTrace());
  const std::vector<Event> failed = Named(RankOf(trace, 1), "lockstep.fail");
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_NE(failed[0].code, 0);
  // Where it has been executed before the abort came.
  for (const Event& other : Named(RankOf(trace, 0), "lockstep.fail")) EXPECT_EQ(other.code, 0);
  const std::vector<Event> aborted = Named(ProcessOf(trace, Role::kController), "session aborted");
  ASSERT_EQ(aborted.size(), 1u);
  EXPECT_EQ(aborted[0].command, failed[0].command);
  EXPECT_EQ(aborted[0].code, failed[0].code);
  EXPECT_GE(aborted[0].begin, failed[0].begin);
}

TEST_F(TraceTest, AStuckWorkerHoldsNothingUpAndIsShown) {
  StartWorkers();
  Session session = Open();
  const DRef ones = Ones(session);
  ASSERT_EQ(session.SyncAll(), OkStatus());
  ASSERT_EQ(session.StartTrace(Patient()), OkStatus());
  (void)Call(session, "lockstep.sleep", {client::Argument(3600.0), client::Argument(1)});
  (void)Get(session.AllReduce(ones, Reduction::kSum));
  ASSERT_EQ(session.Flush(), OkStatus());
  // One sleeps, and the others wait for it in the allreduce.
  const Deadline patience = Deadline::After(kLong);
  int waiting = 0;
  while (waiting < kWorkers && !patience.Expired()) {
    waiting = 0;
    const auto status = GetClusterStatus(controller_->client_endpoint(), kLong);
    ASSERT_TRUE(status.ok()) << status.status();
    for (const WorkerStatus& worker : status->workers) {
      const std::string& what = worker.activity.what;
      if (what == (worker.rank == 1 ? "lockstep.sleep" : "allreduce")) ++waiting;
    }
    support::LetOthersWork();
  }
  const Trace trace = Get(session.StopTrace());
  const std::vector<Event> stuck = Named(RankOf(trace, 1), "lockstep.sleep");
  ASSERT_EQ(stuck.size(), 1u);
  EXPECT_TRUE(stuck[0].unfinished);
  EXPECT_GT(stuck[0].end, stuck[0].begin);
  for (Rank rank : {0, 2}) {
    const std::vector<Event> sums = Named(RankOf(trace, rank), "allreduce");
    ASSERT_EQ(sums.size(), 1u) << rank;
    EXPECT_TRUE(sums[0].unfinished);
  }
  EXPECT_EQ(session.Reset(), OkStatus());
}

TEST_F(TraceTest, EventsThatMadeRoomAreCounted) {
  StartWorkers();
  Session session = Open();
  TraceOptions options = Patient();
  options.events = 16;
  ASSERT_EQ(session.StartTrace(options), OkStatus());
  for (int i = 0; i < 100; ++i) (void)Call(session, "lockstep.nop");
  ASSERT_EQ(session.SyncAll(), OkStatus());
  const Trace trace = Get(session.StopTrace());
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    const TraceThread& executing = RankOf(trace, rank).threads[0];
    EXPECT_EQ(executing.events.size(), 16u + 1u) << "and what was under way at the end";
    EXPECT_GE(executing.lost, 100u - 16u);
  }
  std::ostringstream file;
  WriteChromeTrace(trace, file);
  EXPECT_THAT(file.str(), HasSubstr("older events are lost"));
}

TEST_F(TraceTest, ThereIsOneAtATimeAndThenAnother) {
  StartWorkers();
  Session session = Open();
  EXPECT_EQ(session.StopTrace().status().code(), StatusCode::kFailedPrecondition);
  ASSERT_EQ(session.StartTrace(Patient()), OkStatus());
  EXPECT_EQ(session.StartTrace(Patient()).code(), StatusCode::kFailedPrecondition);
  Session other = Open();
  const lockstep::Status refused = other.StartTrace(Patient());
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(lockstep::Message(refused), HasSubstr("of another client"));
  EXPECT_EQ(session.StopTrace().status(), OkStatus());
  ASSERT_EQ(other.StartTrace(Patient()), OkStatus());
  (void)Call(session, "lockstep.nop");
  EXPECT_EQ(session.SyncAll(), OkStatus());
  const Trace trace = Get(other.StopTrace());
  EXPECT_EQ(Named(RankOf(trace, 2), "lockstep.nop").size(), 1u) << "also what others do";
}

TEST_F(TraceTest, ATraceThatIsGivenUpIsForgotten) {
  StartWorkers();
  (void)Open();
  Get(ClusterTracer::Start(controller_->client_endpoint(), Patient(), context_)).reset();
  EXPECT_TRUE(ClusterTracer::Start(controller_->client_endpoint(), Patient(), context_).ok());
}

TEST_F(TraceTest, AClusterThatIsShutDownSaysSo) {
  StartWorkers();
  (void)Open();
  const auto tracer =
      Get(ClusterTracer::Start(controller_->client_endpoint(), Patient(), context_));
  controller_->RequestStop("for maintenance");
  ASSERT_EQ(controller_->Wait(Deadline::After(kLong)), OkStatus());
  const lockstep::Status stopped = tracer->Stop().status();
  EXPECT_EQ(stopped.code(), StatusCode::kUnavailable) << stopped;
  EXPECT_THAT(lockstep::Message(stopped), HasSubstr("for maintenance"));
}

TEST_F(TraceTest, ARankWithoutAWorkerIsMissing) {
  const auto tracer =
      Get(ClusterTracer::Start(controller_->client_endpoint(), Patient(), context_));
  EXPECT_EQ(RankOf(Get(tracer->Stop()), 1).missing, "it has no worker yet");
}

class ShortLeaseTest : public TraceTest {
 protected:
  void SetUp() override {
    lease_ = 1500ms;
    TraceTest::SetUp();
  }
};

TEST_F(ShortLeaseTest, ATraceWhoseClientIsSilentIsForgotten) {
  StartWorkers();
  (void)Open();
  WireClient silent(controller_->client_endpoint());
  silent.Send([](wire::ClientMessage::Builder message) { message.initTrace().setStart(16); });
  const Deadline patience = Deadline::After(kLong);
  auto next = ClusterTracer::Start(controller_->client_endpoint(), Patient(), context_);
  while (!next.ok() && !patience.Expired()) {
    EXPECT_EQ(next.status().code(), StatusCode::kFailedPrecondition) << next.status();
    std::this_thread::sleep_for(50ms);
    next = ClusterTracer::Start(controller_->client_endpoint(), Patient(), context_);
  }
  EXPECT_TRUE(next.ok()) << next.status();
}

TEST_F(ShortLeaseTest, AClientThatIsThereKeepsItsTraceForLongerThanTheLease) {
  StartWorkers();
  (void)Open();
  const auto tracer =
      Get(ClusterTracer::Start(controller_->client_endpoint(), Patient(), context_));
  std::this_thread::sleep_for(2 * lease_);
  EXPECT_EQ(tracer->Stop().status(), OkStatus());
}

class LostWorkerTraceTest : public RecoveryFixture {};

TEST_F(LostWorkerTraceTest, WhoIsLostOrNewIsMissingAndTheOthersAreThere) {
  TraceOptions patient;
  patient.timeout = kLong;
  StartController(Options());
  StartWorkers();
  Session& session = Open();
  ExpectConnected(session);
  ASSERT_EQ(session.StartTrace(patient), OkStatus());
  ExpectConnected(session);
  Kill(1);
  const lockstep::Status lost = session.SyncAll();
  EXPECT_EQ(lost.code(), StatusCode::kUnavailable) << lost;
  const Trace without = Get(session.StopTrace());
  EXPECT_THAT(RankOf(without, 1).missing, HasSubstr("its worker is lost: its process"));
  for (Rank rank : {0, 2}) {
    EXPECT_EQ(RankOf(without, rank).missing, "");
    EXPECT_EQ(Named(RankOf(without, rank), "allreduce").size(), 1u);
  }
  EXPECT_THAT(NamesIn(ProcessOf(without, Role::kController)), Contains("worker lost"));

  Replace(1);
  Recover(session);
  ASSERT_EQ(session.StartTrace(patient), OkStatus());
  Kill(1);
  Replace(1);
  Recover(session);
  ExpectConnected(session);
  const Trace trace = Get(session.StopTrace());
  EXPECT_EQ(RankOf(trace, 1).missing, "its worker has joined after the trace began");
  EXPECT_EQ(Named(RankOf(trace, 0), "allreduce").size(), 1u);
  EXPECT_THAT(NamesIn(ProcessOf(trace, Role::kController)), Contains("workers connect anew"));
}

TEST_F(LostWorkerTraceTest, WhoDoesNotAnswerIsMissingAndNobodyWaitsForEver) {
  controller::ControllerOptions options = Options();
  options.worker_timeout = kLong;
  StartController(options);
  StartWorkers();
  Session& session = Open();
  ExpectConnected(session);
  TraceOptions trace_options;
  trace_options.timeout = 3s;
  ASSERT_EQ(session.StartTrace(trace_options), OkStatus());
  Suspend(processes_[2].pid());
  const Trace trace = Get(session.StopTrace());
  processes_[2].Signal(SIGCONT);
  EXPECT_EQ(RankOf(trace, 2).missing, "its worker has not answered for 3000 ms");
  EXPECT_EQ(RankOf(trace, 0).missing, "");
  ExpectConnected(session);
  // No reader waits for its old answer any more.
  trace_options.timeout = kLong;
  ASSERT_EQ(session.StartTrace(trace_options), OkStatus());
  EXPECT_EQ(RankOf(Get(session.StopTrace()), 2).missing, "");
}

}  // namespace
}  // namespace lockstep::testing
