// Functions of modules, as a session meets them, and what they must not do to a cluster.
#include <functional>
#include <string>
#include <vector>

#include "tests/integration/session_fixture.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

class ModulesTest : public SessionFixture {
 protected:
  void SetUp() override {
    SessionFixture::SetUp();
    module_ = Unwrap(session_->LoadModule("test_module.so"));
  }
  void TearDown() override {
    module_ = DRef();
    SessionFixture::TearDown();
  }

  // A function that every rank has, so that a failure that overtakes some does not take it away.
  DRef OfModule(const std::string& name) {
    DRef function = Unwrap(session_->GetFunction(module_, name));
    EXPECT_OK(session_->SyncAll());
    return function;
  }
  // The session fails as expected and works again after a reset; `other` never noticed.
  void ExpectFailureOfThisSessionAlone(Session& other, StatusCode code, const std::string& text) {
    const Status status = session_->SyncAll();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(Message(status), HasSubstr(text));
    ExpectSum(other);
    EXPECT_OK(session_->Reset());
    ExpectSum(*session_);
  }
  static void ExpectSum(Session& session) {
    const DRef rank = Unwrap(session.Call(Function(session, "lockstep.worker_rank")));
    const DRef tensor =
        Unwrap(session.Call(Function(session, "lockstep.full"), Shape{3}, rank, DType::kInt64));
    const Value value =
        Unwrap(session.DebugGet(Unwrap(session.AllReduce(tensor, Reduction::kSum)), 3));
    EXPECT_EQ(*value.As<HostTensor>()->Elements<int64_t>(), (std::vector<int64_t>{6, 6, 6}));
  }

  DRef module_;
};
INSTANTIATE_TEST_SUITE_P(Clusters, ModulesTest, ::testing::ValuesIn(AllKinds()), NameOf);

TEST_P(ModulesTest, WhatAFunctionThrowsFailsItsSessionAlone) {
  Session other = Open(SharedCluster(GetParam()));
  ExpectSum(other);
  for (const std::string name : {"escape", "escape_int"}) {
    (void)Unwrap(session_->Call(OfModule(name)));
    ExpectFailureOfThisSessionAlone(other, StatusCode::kInternal, "across the C boundary");
  }
}

// The worker cannot read what lies elsewhere. It says so to every client.
TEST_P(ModulesTest, TensorOnAnotherDeviceIsRefusedWhereItsElementsAreWanted) {
  Session other = Open(SharedCluster(GetParam()));
  const DRef cuda = Unwrap(session_->Call(OfModule("make_cuda_tensor")));
  const DRef host = FullOfRank({4});
  EXPECT_OK(session_->SyncAll());
  const std::vector<std::function<void()>> uses = {
      [&] { (void)session_->AllReduce(cuda, Reduction::kSum); },
      [&] { (void)session_->AllReduce(host, Reduction::kSum, {.destination = cuda}); },
      [&] { (void)session_->AllGather(cuda); },
      [&] { (void)session_->Broadcast(cuda, 1); },
      [&] { (void)session_->Call(Function("lockstep.copy"), cuda); },
      [&] { (void)session_->DebugGet(cuda, 2); },
      [&] {
        std::vector<float> elements(4);
        (void)session_->CopyFromWorker0(ViewOf(elements.data(), elements.size()), cuda);
      },
      [&] {
        const std::vector<float> elements(4);
        (void)session_->CopyToWorker0(cuda, ViewOf(elements.data(), elements.size()));
      }};
  for (size_t i = 0; i < uses.size(); ++i) {
    SCOPED_TRACE(i);
    uses[i]();
    ExpectFailureOfThisSessionAlone(other, StatusCode::kInvalidArgument, "cuda:0");
  }
}

TEST_P(ModulesTest, FunctionsChangeAViewInPlaceHoweverItIsAligned) {
  const DRef whole = FullOfRank({6});
  const DRef view = Call("lockstep.slice", whole, 0, 1, 4);
  const DRef misalignment = Unwrap(session_->Call(OfModule("misalignment"), view));
  (void)Unwrap(session_->Call(OfModule("add_one"), view));
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    EXPECT_EQ(Get(misalignment, rank), Value(0));
    const auto r = static_cast<float>(rank);
    EXPECT_EQ(Elements<float>(whole, rank), (std::vector<float>{r, r + 1, r + 1, r + 1, r, r}));
  }
}

}  // namespace
}  // namespace lockstep::testing
