// What one session can do, on every kind of cluster; collectives_test.cc has the collectives.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/session_fixture.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

class SessionTest : public SessionFixture {};
INSTANTIATE_TEST_SUITE_P(Clusters, SessionTest, ::testing::ValuesIn(AllKinds()), NameOf);

std::vector<Value> EveryKindOfValue() {
  return {
      Value(),
      true,
      false,
      std::numeric_limits<int64_t>::min(),
      2.5,
      "",
      std::string("te\0xt", 5),
      Bytes{std::string("\0\xff", 2)},
      DType::kBFloat16,
      Device{DeviceType::kCpu, 0},
      Shape{},
      Shape{2, 0, 3},
      HostTensor::Of<float>({2, 2}, {{1, 2, 3, 4}}),
      HostTensor{DType::kInt8, {0}, ""},
      HostTensor{DType::kFloat8E4M3, {}, "x"},
      Value::List{},
      Value::List{1, "two", Value::List{3.5, HostTensor::Of<int64_t>({1}, {{7}})}},
      Value::Map{{"a", 1}, {"b", Value::Map{{"c", Value::List{Value()}}}}},
  };
}

TEST_P(SessionTest, KnowsItsCluster) {
  EXPECT_EQ(session_->num_workers(), kWorkers);
  EXPECT_EQ(session_->num_groups(), 2);
  EXPECT_NE(session_->id(), SessionId());
  const std::vector<WorkerInfo> workers = session_->workers();
  ASSERT_EQ(workers.size(), size_t{kWorkers});
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    const WorkerInfo& worker = workers[static_cast<size_t>(rank)];
    EXPECT_EQ(worker.rank, rank);
    const std::string device = ClusterOptions().worker.device;
    EXPECT_EQ(worker.device, device == "cpu" ? "cpu:0" : device);
    EXPECT_GT(worker.pid, 0);
  }
}

// One that is not used because something is in its way is found here, not by its slowness.
TEST_P(SessionTest, CommandsComeByRingWhereTheSettingAndTheHostLetThem) {
  if (GetParam() == ClusterKind::kLocalThreads) {
    GTEST_SKIP() << "its status is asked from inside the cluster only";
  }
  const bool is_embedded = GetParam() == ClusterKind::kLocalProcesses;
  const auto count_by_ring = [](const ClusterStatus& status) {
    return std::count_if(status.workers.begin(), status.workers.end(),
                         [](const WorkerStatus& worker) { return worker.by_ring; });
  };
  if (ClusterOptions().controller.command_rings == "off") {
    const auto status =
        Unwrap(GetClusterStatus(SharedCluster(GetParam()).address(), std::chrono::seconds(30)));
    EXPECT_EQ(count_by_ring(status), 0);
    for (const SessionStatus& session : status.sessions) {
      EXPECT_EQ(session.path, is_embedded ? "direct" : "socket");
    }
    return;
  }
  // The controller counts a worker in once both have looked at their ring.
  const bool share_one_host = GetParam() != ClusterKind::kHosts;
  StatusOnce(SharedCluster(GetParam()), [&](const ClusterStatus& status) {
    return (count_by_ring(status) == kWorkers) == share_one_host;
  });
  if (!is_embedded) return;
  const auto status =
      Unwrap(GetClusterStatus(SharedCluster(GetParam()).address(), std::chrono::seconds(30)));
  ASSERT_FALSE(status.sessions.empty());
  for (const SessionStatus& session : status.sessions) EXPECT_EQ(session.path, "direct");
}

TEST_P(SessionTest, EveryRankRunsTheFunctionInItsPlace) {
  for (const auto& [name, values] : std::vector<std::pair<std::string, std::vector<int64_t>>>{
           {"lockstep.worker_rank", {0, 1, 2, 3}},
           {"lockstep.world_size", {4, 4, 4, 4}},
           {"lockstep.num_groups", {2, 2, 2, 2}},
           {"lockstep.group", {0, 0, 1, 1}},
           {"lockstep.group_rank", {0, 1, 0, 1}},
           {"lockstep.group_size", {2, 2, 2, 2}}}) {
    const DRef result = Call(name);
    for (Rank rank = 0; rank < kWorkers; ++rank) {
      EXPECT_EQ(Get(result, rank), Value(values[static_cast<size_t>(rank)])) << name;
    }
  }
}

TEST_P(SessionTest, AnUnsignedNumberBeyondInt64IsRefusedByTheCall) {
  const DRef identity = Function("lockstep.identity");
  const Status status = session_->Call(identity, 1, std::numeric_limits<uint64_t>::max()).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(Message(status).find("argument 2 is 18446744073709551615, "), 0u) << status;
  EXPECT_TRUE(session_->SyncAll().ok()) << "nothing was sent";
}

TEST_P(SessionTest, EveryKindOfValueIsPassedAndReturned) {
  const DRef identity = Function("lockstep.identity");
  for (const Value& value : EveryKindOfValue()) {
    const DRef result = Unwrap(session_->Call(identity, value));
    EXPECT_EQ(Get(result, 0), value) << ToString(value);
    EXPECT_EQ(Get(result, kWorkers - 1), value) << ToString(value);
  }
}

TEST_P(SessionTest, EveryKindOfValueIsSetOnOneRankOnly) {
  for (const Value& value : EveryKindOfValue()) {
    const DRef ref = Call("lockstep.identity", "unchanged");
    EXPECT_OK(session_->DebugSet(ref, 2, value));
    EXPECT_EQ(Get(ref, 2), value);
    EXPECT_EQ(Get(ref, 1), Value("unchanged"));
  }
}

TEST_P(SessionTest, TypedArgumentsArriveAsTheirTypes) {
  const auto expect = [&](const auto& argument, const Value& value) {
    EXPECT_EQ(Get(Call("lockstep.identity", argument), 1), value);
  };
  expect(nullptr, Value());
  expect(true, true);
  expect(uint8_t{255}, 255);
  expect(2.5f, 2.5);
  expect("text", "text");
  expect(std::string("text"), "text");
  expect(Bytes{"bytes"}, Bytes{"bytes"});
  expect(DType::kInt16, DType::kInt16);
  expect(Device{DeviceType::kCpu, 0}, Device{DeviceType::kCpu, 0});
  expect(Shape{1, 2}, Shape{1, 2});
  expect(Call("lockstep.world_size"), 4);
}

TEST_P(SessionTest, OneThreadKeepsSeveralQuestionsUnderWay) {
  std::vector<Future<Value>> values;
  std::vector<Future<void>> syncs;
  for (int i = 0; i < 10; ++i) {
    const DRef ref = Call("lockstep.identity", i);
    values.push_back(Unwrap(session_->FetchAsync(ref, i % kWorkers)));
    syncs.push_back(Unwrap(session_->SyncAllAsync()));
  }  // the registers are dropped here
  for (int i = 9; i >= 0; --i) {
    const auto at = static_cast<size_t>(i);
    EXPECT_OK(syncs[at].Get());
    EXPECT_TRUE(values[at].IsReady()) << "it was asked for before";
    EXPECT_EQ(Unwrap(values[at].Get()), Value(i));
    EXPECT_FALSE(values[at].IsValid());
    EXPECT_EQ(values[at].Get().status().code(), StatusCode::kFailedPrecondition);
  }
}

TEST_P(SessionTest, AFutureFailsAsTheCallThatWaitsWould) {
  EXPECT_EQ(session_->FetchAsync(Call("lockstep.world_size"), kWorkers).status().code(),
            StatusCode::kInvalidArgument);
  const DRef cast = Function("lockstep.cast");
  const DRef failed = Unwrap(session_->Call(cast, "no tensor"));
  // Once the workers have answered, asking itself fails: with the same cause.
  StatusOr<Future<Value>> value = session_->FetchAsync(failed, 1);
  StatusOr<Future<void>> dropped = session_->SyncAllAsync();
  const Status status = value.ok() ? value->Get().status() : value.status();
  EXPECT_EQ(status, session_->SyncAll()) << "the first cause";
  EXPECT_THAT(Message(status), HasSubstr("lockstep.cast"));
  EXPECT_EQ(session_->SyncAllAsync().status(), status);
  dropped = Future<void>();
  EXPECT_OK(session_->Reset());
  EXPECT_OK(session_->SyncAll());
}

TEST_P(SessionTest, AFutureOutlivesItsSession) {
  Future<Value> asked = Unwrap(session_->FetchAsync(Call("lockstep.world_size"), 0));
  Future<Value> dropped = Unwrap(session_->FetchAsync(Call("lockstep.world_size"), 0));
  EXPECT_OK(session_->Close());
  EXPECT_EQ(Unwrap(asked.Get()), Value(kWorkers)) << "it was answered before the session ended";
}

TEST_P(SessionTest, ValuesMayHoldRegisters) {
  const DRef rank = Call("lockstep.worker_rank");
  const DRef list = Call("lockstep.identity", Value(Value::List{rank, "x"}));
  EXPECT_EQ(Get(list, 3), Value(Value::List{3, "x"}));
  const DRef map = Call("lockstep.identity", Value(Value::Map{{"ranks", Value::List{rank, rank}}}));
  EXPECT_EQ(Get(map, 2), Value(Value::Map{{"ranks", Value::List{2, 2}}}));
  EXPECT_OK(session_->DebugSet(map, 1, rank));
  EXPECT_EQ(Get(map, 1), Value(1));
}

TEST_P(SessionTest, AValueKeepsTheRegisterThatItHolds) {
  const Value list(Value::List{Call("lockstep.worker_rank")});
  EXPECT_OK(session_->SyncAll());
  EXPECT_OK(session_->SyncAll());
  EXPECT_EQ(Get(Call("lockstep.identity", list), 3), Value(Value::List{3}));
}

TEST_P(SessionTest, FunctionsAndModulesAreDescribed) {
  const Value function = Get(Function("lockstep.cast"), 1);
  ASSERT_TRUE(function.Is<RemoteObject>()) << ToString(function);
  EXPECT_THAT(function.As<RemoteObject>()->description, HasSubstr("lockstep.cast"));
}

TEST_P(SessionTest, DeepestValueThatIsAllowedPassesAndADeeperOneIsRefused) {
  Value value = HostTensor::Of<float>({1}, {{1}});
  for (int depth = 0; depth < 8; ++depth) value = Value(Value::Map{{"k", value}});
  EXPECT_EQ(Get(Call("lockstep.identity", value), 0), value);
  const auto refused = session_->Call(Function("lockstep.identity"), Value(Value::List{value}));
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_OK(session_->SyncAll());
}

TEST_P(SessionTest, EmptyMakesTensorsEverywhereOrOnOneRank) {
  const DRef everywhere = Unwrap(session_->Empty({2, 3}, DType::kInt32));
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    EXPECT_EQ(Elements<int32_t>(everywhere, rank).size(), 6u);
  }
  const DRef on_two = Unwrap(session_->Empty({0}, DType::kInt32, 2));
  EXPECT_TRUE(Elements<int32_t>(on_two, 2).empty());
  EXPECT_EQ(session_->DebugGet(on_two, 1).status().code(), StatusCode::kNotFound);
}

TEST_P(SessionTest, TensorFunctionsWorkTogether) {
  const DRef line = Call("lockstep.arange", 0, 12, 1, DType::kInt32);
  const DRef grid = Call("lockstep.reshape", line, Shape{3, 4});
  const DRef column = Call("lockstep.slice", grid, 1, 1, 2);
  const DRef wide = Call("lockstep.concat", 1, column, column);
  const DRef cast = Call("lockstep.cast", wide, DType::kFloat64);
  EXPECT_EQ(Elements<double>(cast, 3), (std::vector<double>{1, 1, 5, 5, 9, 9}));
  EXPECT_EQ(Get(cast, 0).As<HostTensor>()->shape, (Shape{3, 2}));
}

TEST_P(SessionTest, CopiesGoToWorkerZeroAndBack) {
  const HostTensor tensor = HostTensor::Of<double>({3, 2}, {{1, 2, 3, 4, 5, 6}});
  const DRef ref = Unwrap(session_->CopyToWorker0(tensor));
  EXPECT_EQ(Unwrap(session_->CopyFromWorker0(ref)), tensor);
  EXPECT_EQ(Elements<double>(ref, 0), (std::vector<double>{1, 2, 3, 4, 5, 6}));

  const std::vector<double> other = {7, 8, 9, 10, 11, 12};
  EXPECT_OK(session_->CopyToWorker0(ref, ViewOf(other.data(), other.size())));
  std::vector<double> back(6);
  EXPECT_OK(session_->CopyFromWorker0(ViewOf(back.data(), back.size()), ref));
  EXPECT_EQ(back, other);
}

// Copies look at a register at once where they can; commands before them must be done all the same.
TEST_P(SessionTest, CopiesWaitForTheCommandsBeforeThem) {
  for (int i = 0; i < 50; ++i) {
    const DRef full = Call("lockstep.full", Shape{1000}, i, DType::kInt32);
    EXPECT_EQ(Unwrap(session_->CopyFromWorker0(full)).Elements<int32_t>()->back(), i);
    const std::vector<int32_t> next(1000, i + 1);
    EXPECT_OK(session_->CopyToWorker0(full, ViewOf(next.data(), next.size())));
    const DRef copy = Call("lockstep.copy", full);
    EXPECT_EQ(Unwrap(session_->CopyFromWorker0(copy)).Elements<int32_t>()->front(), i + 1);
  }
}

TEST_P(SessionTest, EmptyTensorsAreCopied) {
  const DRef ref = Unwrap(session_->CopyToWorker0(HostTensor{DType::kFloat32, {0, 7}, ""}));
  EXPECT_EQ(Unwrap(session_->CopyFromWorker0(ref)).shape, (Shape{0, 7}));
}

TEST_P(SessionTest, CopySeesWhatDebugSetPutThere) {
  const DRef ref = Unwrap(session_->CopyToWorker0(HostTensor::Of<int32_t>({2}, {{1, 2}})));
  EXPECT_EQ(Unwrap(session_->CopyFromWorker0(ref)).shape, (Shape{2}));
  const HostTensor longer = HostTensor::Of<int32_t>({3}, {{4, 5, 6}});
  EXPECT_OK(session_->DebugSet(ref, 0, longer));
  EXPECT_EQ(Unwrap(session_->CopyFromWorker0(ref)), longer);
}

TEST_P(SessionTest, SyncWaitsForOneRankOrAll) {
  for (Rank rank = 0; rank < kWorkers; ++rank) EXPECT_OK(session_->Sync(rank));
  EXPECT_OK(session_->SyncAll());
  EXPECT_OK(session_->Flush());
}

TEST_P(SessionTest, ManySmallCallsKeepTheirOrder) {
  const DRef identity = Function("lockstep.identity");
  DRef value = Call("lockstep.identity", 0);
  for (int i = 1; i <= 8000; ++i) {
    value =
        i % 2 == 0 ? Unwrap(session_->Call(identity, i)) : Unwrap(session_->Call(identity, value));
  }
  EXPECT_EQ(Get(value, 3), Value(8000));
}

TEST_P(SessionTest, DroppedRegisterIsFreedOnAllRanks) {
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    DRef ref = Call("lockstep.identity", 5);
    const RegisterId id = ref.id();
    EXPECT_EQ(Get(ref, rank), Value(5));
    ref = DRef();
    EXPECT_OK(session_->SyncAll());  // its batch carried the kill
    (void)Unwrap(session_->Call(Function("lockstep.identity"), Named(id)));
    const Status status = session_->Sync(rank);
    EXPECT_EQ(status.code(), StatusCode::kNotFound) << status;
    EXPECT_THAT(Message(status), HasSubstr("was freed"));
    EXPECT_OK(session_->Reset());
  }
}

TEST_P(SessionTest, CopyOfADRefKeepsTheRegister) {
  DRef ref = Call("lockstep.identity", 5);
  const DRef copy = ref;
  ref = DRef();
  EXPECT_OK(session_->SyncAll());
  EXPECT_OK(session_->SyncAll());
  EXPECT_EQ(Get(copy, 1), Value(5));
}

TEST_P(SessionTest, CloseEndsTheSession) {
  const DRef ref = Call("lockstep.identity", 1);
  EXPECT_OK(session_->Close());
  EXPECT_OK(session_->Close());
  EXPECT_EQ(session_->SyncAll().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(session_->DebugGet(ref, 0).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(session_->GetFunction("lockstep.nop").status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(session_->Reset().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(session_->Flush().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(session_->CopyFromWorker0(ref).status().code(), StatusCode::kFailedPrecondition);
}

TEST_P(SessionTest, SessionsCanBeMovedAndReplaced) {
  Session moved = std::move(*session_);
  EXPECT_OK(moved.SyncAll());
  *session_ = Open(SharedCluster(GetParam()));
  EXPECT_OK(session_->SyncAll());
  moved = std::move(*session_);
  EXPECT_OK(moved.SyncAll());
  session_.reset();
}

TEST_P(SessionTest, ASessionThatWasMovedFromSaysSo) {
  const DRef ref = Call("lockstep.identity", 1);
  Session owner = std::move(*session_);
  Session& gone = *session_;
  float number = 0;
  const HostTensor tensor = HostTensor::Of<float>({1}, {{1}});
  for (const Status& status : {gone.LoadModule("a.so").status(),
                               gone.GetFunction("lockstep.nop").status(),
                               gone.GetFunction(ref, "f").status(),
                               gone.Call(ref, 1).status(),
                               gone.CallWith(ref, {}).status(),
                               gone.Empty({1}, DType::kInt8).status(),
                               gone.CopyToWorker0(ref, ViewOf(&number, 1)),
                               gone.CopyToWorker0(tensor).status(),
                               gone.CopyToWorker0({1}, ViewOf(&number, 1)).status(),
                               gone.CopyFromWorker0(ViewOf(&number, 1), ref),
                               gone.CopyFromWorker0(ref).status(),
                               gone.AllReduce(ref, Reduction::kSum).status(),
                               gone.Reduce(ref, Reduction::kSum).status(),
                               gone.Broadcast(ref, 0).status(),
                               gone.BroadcastFromWorker0(ref).status(),
                               gone.Scatter(ref, 0).status(),
                               gone.ScatterFromWorker0(ref).status(),
                               gone.Gather(ref, 0).status(),
                               gone.GatherToWorker0(ref).status(),
                               gone.AllGather(ref).status(),
                               gone.ReduceScatter(ref, Reduction::kSum).status(),
                               gone.AllToAll(ref).status(),
                               gone.Barrier(),
                               gone.Transfer(ref, 0, 1).status(),
                               gone.SendToNextGroup(ref),
                               gone.ReceiveFromPreviousGroup().status(),
                               gone.SendFromWorker0(ref, 1).status(),
                               gone.Sync(0),
                               gone.SyncAll(),
                               gone.Flush(),
                               gone.DebugGet(ref, 0).status(),
                               gone.DebugSet(ref, 0, 1),
                               gone.Reset(),
                               gone.AwaitWorkers(std::chrono::milliseconds(1)),
                               gone.RanksThatLost(ref).status(),
                               gone.StartTrace(),
                               gone.StopTrace().status(),
                               gone.Name(ref, "a"),
                               gone.Find("a").status(),
                               gone.Detach(),
                               gone.Close()}) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(Message(status), HasSubstr("was moved from"));
  }
  EXPECT_EQ(gone.id(), SessionId{});
  EXPECT_EQ(gone.num_workers(), 0);
  EXPECT_EQ(gone.num_groups(), 0);
  EXPECT_TRUE(gone.workers().empty());
  EXPECT_EQ(gone.ticket(), "");
  EXPECT_OK(owner.SyncAll()) << "the session goes on";
  EXPECT_OK(owner.Close());
}

TEST_P(SessionTest, DRefsMayOutliveTheirSession) {
  DRef ref = Call("lockstep.identity", 1);
  session_.reset();
  const DRef copy = ref;
  ref = DRef();
  EXPECT_FALSE(copy.IsNull());
}

// Clusters with little memory: what is not freed in time is missed soon.
class SmallArenaTest : public OwnClusterFixture {
 protected:
  static constexpr int64_t kArenaBytes = 64 << 20;

  ClusterOptions OwnOptions() override {
    ClusterOptions options;
    options.workers = 2;
    options.worker.arena_bytes = kArenaBytes;
    options.worker.device_memory_bytes = kArenaBytes;
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, SmallArenaTest, ::testing::ValuesIn(AllKinds()), NameOf);

TEST_P(SmallArenaTest, MemoryOfDroppedTensorsIsUsedAgain) {
  for (int i = 0; i < 200; ++i) {
    (void)Unwrap(session_->Empty({8 << 20}, DType::kUInt8));
    if (i % 4 != 3) continue;
    EXPECT_OK(session_->SyncAll());
  }
  EXPECT_OK(session_->SyncAll());
}

TEST_P(SmallArenaTest, RegistersOfAClosedSessionAreFreed) {
  std::vector<DRef> outlive_their_sessions;
  for (int i = 0; i < 3; ++i) {
    Session session = Open(*cluster_);
    outlive_their_sessions.push_back(Unwrap(session.Empty({40 << 20}, DType::kUInt8)));
    // Located, too: its ticket must not keep it.
    EXPECT_OK(session.CopyFromWorker0(outlive_their_sessions.back()).status());
    EXPECT_OK(session.Close());
  }
}

TEST_P(SmallArenaTest, TooLargeATensorIsRefusedAndTheRankNamed) {
  (void)Unwrap(session_->Empty({2 * kArenaBytes}, DType::kUInt8, 1));
  const Status status = session_->SyncAll();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(Message(status), HasSubstr("rank 1"));
  EXPECT_OK(session_->Reset());
  (void)Unwrap(session_->Empty({1 << 20}, DType::kUInt8));
  EXPECT_OK(session_->SyncAll());
}

}  // namespace
}  // namespace lockstep::testing
