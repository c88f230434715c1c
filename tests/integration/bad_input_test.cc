// Bad input gets a clear status, and costs other sessions nothing: on every kind of cluster.
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/integration/session_fixture.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

// A second session looks on: whatever the first one does must not touch it.
class BadInputTest : public SessionFixture {
 protected:
  void SetUp() override {
    SessionFixture::SetUp();
    bystander_ = std::make_unique<Session>(Open(SharedCluster(GetParam())));
    bystander_value_ = Unwrap(bystander_->Call(Function(*bystander_, "lockstep.worker_rank")));
  }
  void TearDown() override {
    // The bystander's registers are whole, and its collectives work.
    const DRef tensor = Unwrap(bystander_->Call(Function(*bystander_, "lockstep.full"), Shape{2},
                                                bystander_value_, DType::kInt32));
    const DRef sum = Unwrap(bystander_->AllReduce(tensor, Reduction::kSum));
    const Value value = Unwrap(bystander_->DebugGet(sum, 1));
    EXPECT_EQ(*value.As<HostTensor>()->Elements<int32_t>(), (std::vector<int32_t>{6, 6}));
    // The session works again after a reset, with what it had before.
    EXPECT_OK(session_->Reset());
    EXPECT_OK(session_->Barrier());
    EXPECT_OK(session_->SyncAll());
    EXPECT_OK(bystander_->Close());
    SessionFixture::TearDown();
  }

  // Waits for the failure of what was issued; every later call reports it too.
  Status Failure() {
    const Status status = session_->SyncAll();
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(session_->GetFunction("lockstep.nop").status(), status);
    EXPECT_EQ(session_->SyncAll(), status);
    EXPECT_EQ(session_->DebugGet(Some(), 0).status(), status);
    return status;
  }
  // A register that was made before anything failed.
  const DRef& Some() const { return some_; }
  // `issue` returns what the call itself says, which is OK: the failure comes from the workers.
  void ExpectFailure(const std::function<Status()>& issue, StatusCode code,
                     const ::testing::Matcher<const std::string&>& message) {
    some_ = Call("lockstep.identity", 1);
    EXPECT_OK(session_->SyncAll());  // a rank that is behind would skip what came before
    EXPECT_OK(issue());
    const Status status = Failure();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(Message(status), message);
  }
  void ExpectCallFailure(const std::string& function, const std::vector<Value>& arguments,
                         const ::testing::Matcher<const std::string&>& message) {
    ExpectFailure(
        [&] {
          std::vector<client::Argument> list(arguments.begin(), arguments.end());
          return session_->CallWith(Function(function), list).status();
        },
        StatusCode::kInvalidArgument, AllOf(message, HasSubstr(function), HasSubstr("rank ")));
  }

  std::unique_ptr<Session> bystander_;
  DRef bystander_value_;
  DRef some_;
};
INSTANTIATE_TEST_SUITE_P(Clusters, BadInputTest, ::testing::ValuesIn(AllKinds()), NameOf);

TEST_P(BadInputTest, UnknownFunction) {
  ExpectFailure([&] { return session_->GetFunction("no.such.function").status(); },
                StatusCode::kNotFound, HasSubstr("no.such.function"));
}

TEST_P(BadInputTest, TooFewArguments) {
  ExpectCallFailure("lockstep.full", {Shape{1}}, HasSubstr("value"));
}

TEST_P(BadInputTest, TooManyArguments) {
  ExpectCallFailure("lockstep.worker_rank", {1, 2}, HasSubstr("2"));
}

TEST_P(BadInputTest, ArgumentOfTheWrongType) {
  ExpectCallFailure("lockstep.full", {"not a shape", 1, DType::kInt8},
                    AllOf(HasSubstr("shape"), HasSubstr("text")));
}

TEST_P(BadInputTest, ArgumentThatTheDTypeCannotHold) {
  ExpectCallFailure("lockstep.full", {Shape{1}, 300, DType::kInt8}, HasSubstr("300"));
}

TEST_P(BadInputTest, FunctionThatFailsOnOneRank) {
  ExpectFailure(
      [&] { return session_->Call(Function("lockstep.fail"), "out of luck", 2).status(); },
      StatusCode::kInternal,
      AllOf(HasSubstr("rank 2"), HasSubstr("lockstep.fail"), HasSubstr("out of luck"),
            HasSubstr("command ")));
}

TEST_P(BadInputTest, RegisterThatHoldsNoFunction) {
  ExpectFailure([&] { return session_->Call(Some(), 1).status(); }, StatusCode::kInvalidArgument,
                HasSubstr("cannot be called"));
}

TEST_P(BadInputTest, RegisterThatHoldsNoModule) {
  ExpectFailure([&] { return session_->GetFunction(Some(), "f").status(); },
                StatusCode::kInvalidArgument, HasSubstr("not a module"));
}

TEST_P(BadInputTest, RegisterThatWasFreed) {
  DRef freed = Call("lockstep.identity", 1);
  const RegisterId id = freed.id();
  freed = DRef();
  EXPECT_OK(session_->SyncAll());
  ExpectFailure([&] { return session_->Call(Function("lockstep.identity"), Named(id)).status(); },
                StatusCode::kNotFound, HasSubstr("freed"));
}

// Its index is another register's by now: an error, and never that one's data.
TEST_P(BadInputTest, RegisterWhosePlaceWasGivenAway) {
  DRef freed = Call("lockstep.identity", "old");
  const RegisterId id = freed.id();
  freed = DRef();
  EXPECT_OK(session_->SyncAll());
  DRef next;
  std::vector<DRef> kept;
  do {
    next = Call("lockstep.identity", "new");
    kept.push_back(next);
  } while (next.id().index != id.index);
  ExpectFailure([&] { return session_->Call(Function("lockstep.identity"), Named(id)).status(); },
                StatusCode::kNotFound, HasSubstr("its place now holds"));
}

TEST_P(BadInputTest, RegisterThatWasNeverWritten) {
  ExpectFailure(
      [&] {
        return session_->Call(Function("lockstep.identity"), Named({77'777, 1})).status();
      },
      StatusCode::kNotFound, HasSubstr("never written"));
}

TEST_P(BadInputTest, NameOfNoRegister) {
  ExpectFailure(
      [&] {
        return session_->Call(Function("lockstep.identity"), Named({0, 0})).status();
      },
      StatusCode::kInvalidArgument, HasSubstr("names nothing"));
}

TEST_P(BadInputTest, RegisterOfAnotherCluster) {
  // Which may have the same session's number, and the same register's.
  const auto elsewhere = Unwrap(Cluster::Start(ClusterKind::kLocalThreads));
  std::vector<Session> sessions;
  do {
    sessions.push_back(Open(*elsewhere));
  } while (sessions.back().id() < session_->id());
  const DRef foreign = Unwrap(sessions.back().Empty({1}, DType::kFloat32));
  for (const Status& status :
       {session_->DebugGet(foreign, 0).status(), session_->CopyFromWorker0(foreign).status(),
        session_->AllReduce(foreign, Reduction::kSum).status()}) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(Message(status), HasSubstr("of another cluster"));
  }
  EXPECT_OK(session_->SyncAll());
}

TEST_P(BadInputTest, RegisterOfAnotherSession) {
  const auto refused = [&](const Status& status) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(Message(status), HasSubstr("belongs to session"));
  };
  const DRef function = Function("lockstep.identity");
  refused(session_->Call(function, bystander_value_).status());
  refused(session_->Call(Function(*bystander_, "lockstep.nop")).status());
  refused(session_->DebugGet(bystander_value_, 0).status());
  refused(session_->DebugSet(bystander_value_, 0, 1));
  refused(session_->AllReduce(bystander_value_, Reduction::kSum).status());
  refused(
      session_->AllReduce(function, Reduction::kSum, {.destination = bystander_value_}).status());
  refused(session_->CopyFromWorker0(bystander_value_).status());
  refused(session_->GetFunction(bystander_value_, "f").status());
  EXPECT_OK(session_->SyncAll()) << "nothing was sent";
}

TEST_P(BadInputTest, NullDRef) {
  EXPECT_EQ(session_->Call(DRef()).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(session_->Call(Function("lockstep.identity"), DRef()).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(session_->DebugGet(DRef(), 0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(session_->Broadcast(DRef(), 0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(session_->CopyFromWorker0(DRef()).status().code(), StatusCode::kInvalidArgument);
  EXPECT_OK(session_->SyncAll());
}

TEST_P(BadInputTest, BadRanks) {
  const DRef tensor = FullOfRank({4});
  for (Rank rank : {-1, kWorkers, 1 << 30}) {
    EXPECT_EQ(session_->Sync(rank).code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(session_->DebugGet(tensor, rank).status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(session_->DebugSet(tensor, rank, 1).code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(session_->Broadcast(tensor, rank).status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(session_->Transfer(tensor, 0, rank).status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(session_->Transfer(tensor, rank, 0).status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(session_->Empty({1}, DType::kInt8, rank).status().code(),
              StatusCode::kInvalidArgument);
    EXPECT_EQ(session_->Barrier({.team = {0, rank}}).code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(session_->Transfer(tensor, 2, 2).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(session_->SendFromWorker0(tensor, 0).status().code(), StatusCode::kInvalidArgument);
  // Roots are counted in the group or team.
  EXPECT_EQ(session_->Broadcast(tensor, 2, {.in_group = true}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(session_->Gather(tensor, 2, {.team = {1, 2}}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_OK(session_->SyncAll());
}

TEST_P(BadInputTest, BadGroupsAndTeams) {
  EXPECT_EQ(session_->Barrier({.team = {1, 1}}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(session_->Barrier({.in_group = true, .team = {1}}).code(),
            StatusCode::kInvalidArgument);
  for (int groups : {0, -1, 3, 5, 8, std::numeric_limits<int>::max()}) {
    SessionOptions options = Options();
    options.num_groups = groups;
    const Status status = SharedCluster(GetParam()).Connect(options).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << groups << ": " << status;
    EXPECT_THAT(Message(status), HasSubstr("num_groups"));
  }
  EXPECT_OK(session_->SyncAll());
}

TEST_P(BadInputTest, ShapesThatCannotBe) {
  for (const Shape& shape :
       {Shape{-1}, Shape{int64_t{1} << 40, int64_t{1} << 40}, Shape{0, int64_t{1} << 62, 8}}) {
    EXPECT_EQ(session_->Empty(shape, DType::kFloat64).status().code(), StatusCode::kInvalidArgument)
        << shape;
    EXPECT_EQ(session_->CopyToWorker0(shape, ConstBuffer{}).status().code(),
              StatusCode::kInvalidArgument)
        << shape;
    EXPECT_EQ(session_->CopyToWorker0(HostTensor{DType::kFloat64, shape, ""}).status().code(),
              StatusCode::kInvalidArgument)
        << shape;
  }
  EXPECT_OK(session_->SyncAll());
}

TEST_P(BadInputTest, HostTensorWhoseDataDoesNotFitItsShape) {
  EXPECT_EQ(session_->CopyToWorker0(HostTensor{DType::kFloat32, {2}, "12345"}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(session_->CopyToWorker0(HostTensor{DType::kFloat32, {1}, "12345"}).status().code(),
            StatusCode::kInvalidArgument);
  const DRef function = Function("lockstep.identity");
  const HostTensor wrong{DType::kFloat32, {2}, "12345"};
  for (const Status& status :
       {session_->Call(function, wrong).status(),
        session_->Call(function, Value(Value::List{1, wrong})).status(),
        session_->Call(function, Shape{-1}).status(), session_->DebugSet(function, 0, wrong),
        session_->DebugSet(function, 1, Value(Value::Map{{"key", wrong}}))}) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  }
  EXPECT_THAT(Message(session_->Call(function, 1, wrong).status()),
              AllOf(HasSubstr("argument 2"), HasSubstr("float32 [2] has 8 bytes"), HasSubstr("5")));
  EXPECT_OK(session_->SyncAll()) << "nothing was sent";
}

// A worker would read this session's own register of that number.
TEST_P(BadInputTest, RegisterOfAnotherSessionInAValue) {
  const DRef function = Function("lockstep.identity");
  const auto refused = [&](const Status& status, const std::string& message) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(Message(status), HasSubstr(message));
  };
  for (const Value& value : {Value(bystander_value_), Value(Value::List{1, bystander_value_}),
                             Value(Value::Map{{"key", Value::List{bystander_value_}}}),
                             Value(RegisterRef{bystander_->id(), bystander_value_.id()})}) {
    refused(session_->Call(function, value).status(), "belongs to session");
    refused(session_->DebugSet(function, 0, value), "belongs to session");
  }
  const RegisterId id = function.id();
  refused(session_->Call(function, Value(id)).status(), "put the DRef itself there");
  refused(session_->Call(function, Value(Value::List{id})).status(), "item 1 of a list");
  refused(session_->DebugSet(function, 0, Value(id)), "put the DRef itself there");
  EXPECT_OK(session_->SyncAll()) << "nothing was sent";
}

TEST_P(BadInputTest, ArgumentThatIsTooLargeForAMessage) {
  const HostTensor large{DType::kUInt8, {(64 << 20) + 1}, std::string((64 << 20) + 1, 'x')};
  const DRef function = Function("lockstep.identity");
  for (const Status& status :
       {session_->Call(function, large).status(),
        session_->Call(function, Value(Value::List{large})).status(),
        session_->Call(function, Bytes{large.data}).status(),
        session_->Call(function, large.data).status(), session_->DebugSet(function, 0, large),
        session_->DebugSet(function, 0, Value(Value::Map{{"k", large}}))}) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  }
  EXPECT_OK(session_->SyncAll());
}

TEST_P(BadInputTest, CopiesThatDoNotMatchTheRegister) {
  const DRef tensor = Unwrap(session_->CopyToWorker0(HostTensor::Of<float>({3}, {{1, 2, 3}})));
  std::vector<float> two(2);
  std::vector<double> three(3);
  EXPECT_EQ(session_->CopyFromWorker0(ViewOf(two.data(), 2), tensor).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(session_->CopyFromWorker0(ViewOf(three.data(), 3), tensor).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(session_->CopyToWorker0(tensor, ViewOf(two.data(), 2)).code(),
            StatusCode::kInvalidArgument);
  const Status status = session_->CopyToWorker0(tensor, ViewOf(three.data(), 3));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("float32 [3]"), HasSubstr("float64")));
  EXPECT_OK(session_->SyncAll());
}

TEST_P(BadInputTest, CopyOfWhatIsNoTensor) {
  const DRef number = Call("lockstep.identity", 5);
  const Status status = session_->CopyFromWorker0(number).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("only tensors can be copied"));
}

TEST_P(BadInputTest, ReadingARegisterThatARankDoesNotHave) {
  const DRef only_one = Unwrap(session_->Empty({1}, DType::kInt8, 1));
  const Status status = session_->DebugGet(only_one, 3).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("rank 3"), HasSubstr("fetch")));
}

TEST_P(BadInputTest, CollectiveOfWhatIsNoTensor) {
  ExpectFailure([&] { return session_->AllReduce(Some(), Reduction::kSum).status(); },
                StatusCode::kInvalidArgument,
                AllOf(HasSubstr("allreduce"), HasSubstr("not a tensor")));
}

TEST_P(BadInputTest, RanksWithDifferentShapes) {
  const DRef tensor =
      PerRank({HostTensor::Of<float>({1}, {{1}}), HostTensor::Of<float>({1}, {{1}}),
               HostTensor::Of<float>({2}, {{1, 2}}), HostTensor::Of<float>({1}, {{1}})});
  ExpectFailure([&] { return session_->AllReduce(tensor, Reduction::kSum).status(); },
                StatusCode::kInvalidArgument, AllOf(HasSubstr("allreduce"), HasSubstr("2")));
}

TEST_P(BadInputTest, RanksWithDifferentDTypes) {
  const HostTensor floats = HostTensor::Of<float>({1, 1}, {{1}});
  const DRef tensor = PerRank({floats, floats, floats, HostTensor::Of<int32_t>({1, 1}, {{1}})});
  for (const auto& gather : std::vector<std::function<StatusOr<DRef>()>>{
           [&] { return session_->AllReduce(tensor, Reduction::kMax); },
           [&] { return session_->AllGather(tensor); }, [&] { return session_->AllToAll(tensor); },
           [&] { return session_->Gather(tensor, 0); }}) {
    ExpectFailure([&] { return gather().status(); }, StatusCode::kInvalidArgument,
                  AllOf(HasSubstr("int32"), HasSubstr("float32"), HasSubstr("3")));
    EXPECT_OK(session_->Reset());
  }
}

TEST_P(BadInputTest, RowsOfDifferentShapes) {
  const HostTensor two = HostTensor::Of<float>({1, 2}, {{1, 2}});
  const DRef tensor = PerRank({two, HostTensor::Of<float>({1, 3}, {{1, 2, 3}}), two, two});
  ExpectFailure([&] { return session_->AllGather(tensor).status(); }, StatusCode::kInvalidArgument,
                AllOf(HasSubstr("rank 1"), HasSubstr("[1, 3]"), HasSubstr("[1, 2]")));
}

TEST_P(BadInputTest, ScalarsHaveNoRows) {
  const DRef scalar = FullOfRank({});
  for (const auto& issue : std::vector<std::function<StatusOr<DRef>()>>{
           [&] { return session_->Scatter(scalar, 0); },
           [&] { return session_->AllGather(scalar); },
           [&] { return session_->ReduceScatter(scalar, Reduction::kSum); },
           [&] { return session_->AllToAll(scalar); }}) {
    ExpectFailure([&] { return issue().status(); }, StatusCode::kInvalidArgument,
                  HasSubstr("scalar"));
    EXPECT_OK(session_->Reset());
  }
}

TEST_P(BadInputTest, DestinationThatDoesNotFit) {
  const DRef source = FullOfRank({4});
  const DRef wrong_size = FullOfRank({5});
  const DRef wrong_dtype = FullOfRank({4}, DType::kInt32);
  for (const DRef& destination : {wrong_size, wrong_dtype}) {
    ExpectFailure(
        [&] {
          return session_->AllReduce(source, Reduction::kSum, {.destination = destination})
              .status();
        },
        StatusCode::kInvalidArgument, HasSubstr("destination"));
    EXPECT_OK(session_->Reset());
  }
}

TEST_P(BadInputTest, ReductionThatIsNotDefined) {
  const DRef bits = PerRank(std::vector<HostTensor>(4, {DType::kFloat8E4M3, {1}, "x"}));
  ExpectFailure([&] { return session_->AllReduce(bits, Reduction::kSum).status(); },
                StatusCode::kInvalidArgument, HasSubstr("float8"));
}

TEST_P(BadInputTest, LibraryThatDoesNotExist) {
  ExpectFailure([&] { return session_->LoadModule("no_such_module.so").status(); },
                StatusCode::kNotFound,
                AllOf(HasSubstr("load module"), HasSubstr("no_such_module.so")));
}

TEST_P(BadInputTest, LibraryOutsideOfTheAllowedDirectories) {
  ExpectFailure([&] { return session_->LoadModule("/proc/self/exe").status(); },
                StatusCode::kPermissionDenied, HasSubstr("outside of the allowed directories"));
}

TEST_P(BadInputTest, LibraryThatRefersToWhatNobodyDefines) {
  ExpectFailure([&] { return session_->LoadModule("broken_module.so").status(); },
                StatusCode::kInvalidArgument, HasSubstr("symbol_that_nobody_defines"));
}

TEST_P(BadInputTest, FunctionThatTheModuleDoesNotHave) {
  const DRef module = Unwrap(session_->LoadModule("test_module.so"));
  ExpectFailure([&] { return session_->GetFunction(module, "no_such").status(); },
                StatusCode::kNotFound, HasSubstr("no_such"));
}

TEST_P(BadInputTest, FunctionOfAModuleThatThrows) {
  const DRef module = Unwrap(session_->LoadModule("test_module.so"));
  const DRef raise = Unwrap(session_->GetFunction(module, "raise"));
  // A failure overtakes ranks that are behind; what is to outlive it must have been executed by
  // all.
  EXPECT_OK(session_->SyncAll());
  ExpectFailure([&] { return session_->Call(raise, "ValueError", "bad weights").status(); },
                StatusCode::kInvalidArgument,
                AllOf(HasSubstr("raise"), HasSubstr("bad weights"), HasSubstr("rank ")));
  EXPECT_OK(session_->Reset());
  const DRef throws = Unwrap(session_->GetFunction(module, "throw_std"));
  ExpectFailure([&] { return session_->Call(throws).status(); }, StatusCode::kInternal,
                HasSubstr("out of luck"));
  EXPECT_OK(session_->Reset());
  const DRef escape = Unwrap(session_->GetFunction(module, "escape"));
  ExpectFailure([&] { return session_->Call(escape).status(); }, StatusCode::kInternal,
                HasSubstr("over the wall"));
}

TEST_P(BadInputTest, RemoteStackIsPartOfTheError) {
  const DRef module = Unwrap(session_->LoadModule("test_module.so"));
  const DRef raise = Unwrap(session_->GetFunction(module, "raise_with_backtrace"));
  ExpectFailure([&] { return session_->Call(raise).status(); }, StatusCode::kInvalidArgument,
                AllOf(HasSubstr("remote stack"), HasSubstr("kernel.py")));
}

TEST_P(BadInputTest, ModulesFunctionsAreCheckedForTheirArguments) {
  const DRef module = Unwrap(session_->LoadModule("test_module.so"));
  const DRef add_one = Unwrap(session_->GetFunction(module, "add_one"));
  const DRef tensor = FullOfRank({3});
  (void)Unwrap(session_->Call(add_one, tensor));
  EXPECT_EQ(Elements<float>(tensor, 2), (std::vector<float>{3, 3, 3}));
  ExpectFailure([&] { return session_->Call(add_one, "text").status(); },
                StatusCode::kInvalidArgument, HasSubstr("add_one"));
  EXPECT_OK(session_->Reset());
  ExpectFailure([&] { return session_->Call(add_one, FullOfRank({1}, DType::kInt8)).status(); },
                StatusCode::kInvalidArgument, HasSubstr("add_one"));
}

}  // namespace
}  // namespace lockstep::testing
