#include "services/worker/execute/gpu_work_tracker.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/random.h"
#include "runtime/base/shared_segment.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "runtime/tensor/tensor.h"
#include "tests/support/fake_channel.h"
#include "tests/unit/services/worker/fake_accelerator.h"

namespace lockstep::worker {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

// Of a worker with one session, on an accelerator that does what the test says.
class GpuWorkTrackerTest : public testing::Test {
 protected:
  static constexpr SessionId kSession{3};
  static constexpr RegisterId kSource{1, 1};
  static constexpr RegisterId kResult{2, 1};

  void SetUp() override {
    auto arena = tensor::Arena::Create(
        {.name = std::string(SharedSegment::kNamePrefix) + "tracker-" + RandomHex(8),
         .capacity_bytes = size_t{16} << 20});
    ASSERT_TRUE(arena.ok()) << arena.status();
    arena_ = *std::move(arena);
    auto bulk = control::ZmqListen(context_, "inproc://tracker-" + RandomHex(4));
    ASSERT_TRUE(bulk.ok()) << bulk.status();
    bulk_ = std::make_unique<BulkServer>(*std::move(bulk));
    membership_.segments = {arena_->name()};
    sessions_ =
        std::make_unique<SessionDirectory>(registers::RegisterFile::Limits(), *arena_, *bulk_);
    sessions_->AdoptWelcome(membership_);
    control::SessionRecord record;
    record.id = kSession;
    sessions_->Open(record);
    session_ = sessions_->Find(kSession);
    reports_.SetController(membership_, channel_);
    tracker_ = std::make_unique<GpuWorkTracker>(gpu_, *sessions_, reports_, activity_, &recorder_,
                                                running_, [this] { while_waiting_(); });
    tracker_->BeginBatch(session_);
  }

  Status Note(uint64_t command, const std::string& what = "scale") {
    return tracker_->Note(*session_, {.command = command, .what = what, .may_have_used = true});
  }
  tensor::Tensor Make(RegisterId id) {
    auto tensor = tensor::Tensor::Empty(*arena_, DType::kFloat32, Shape{4});
    EXPECT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_TRUE(session_->Write(id, *tensor).ok());
    return *tensor;
  }
  bool Holds(RegisterId id) { return session_->registers().Read(id).ok(); }
  // From kSource to kResult, on the GPU. Returns when it ends there.
  std::shared_ptr<FakeEvent> NoteAllReduce(uint64_t command) {
    capnp::MallocMessageBuilder message;
    auto collective = message.initRoot<wire::Command>().initCollective();
    collective.setKind(wire::CollectiveKind::ALL_REDUCE);
    collective.setSource(kSource.Packed());
    collective.setDestination(kResult.Packed());
    auto end = std::make_shared<FakeEvent>();
    gpu_->last_communication = {std::make_shared<FakeEvent>(), end};
    CollectiveOutcome outcome;
    outcome.facts.ranks = 2;
    outcome.facts.backend = "nccl";
    outcome.connection = connection_;
    tracker_->NoteCollective(session_, command, collective.asReader(), outcome, 10s);
    return end;
  }
  void FinishAll() {
    for (FakeEvent* mark : gpu_->marks) mark->is_done = true;
  }

  std::shared_ptr<control::ZmqContext> context_ = control::ZmqContext::Create();
  std::shared_ptr<tensor::Arena> arena_;
  std::unique_ptr<BulkServer> bulk_;
  Membership membership_;
  std::unique_ptr<SessionDirectory> sessions_;
  std::shared_ptr<SessionState> session_;
  Recorder recorder_;
  ControllerReports reports_{&recorder_};
  support::FakeChannel channel_;
  control::ActivityPage activity_;
  RunningCommand running_{activity_};
  std::shared_ptr<FakeAccelerator> gpu_ = std::make_shared<FakeAccelerator>();
  std::shared_ptr<FakeConnection> connection_ = std::make_shared<FakeConnection>();
  std::function<void()> while_waiting_ = [] {};
  std::unique_ptr<GpuWorkTracker> tracker_;
};

TEST_F(GpuWorkTrackerTest, NotesOnlyWhatUsesTheGpu) {
  EXPECT_TRUE(tracker_->Note(*session_, {.command = 1, .what = "add"}).ok());
  EXPECT_FALSE(tracker_->TakeNoted());
  EXPECT_FALSE(tracker_->IsBusy());
  EXPECT_TRUE(gpu_->processor().Fill({}, 0).ok());
  EXPECT_TRUE(tracker_->Note(*session_, {.command = 2, .what = "fill"}).ok());
  EXPECT_TRUE(tracker_->TakeNoted());
  EXPECT_FALSE(tracker_->TakeNoted()) << "it was taken";
  EXPECT_TRUE(tracker_->IsBusy());
  FinishAll();
  tracker_->Look();
  EXPECT_FALSE(tracker_->IsBusy());
}

TEST_F(GpuWorkTrackerTest, AWaitEndsWhenTheSessionsWorkIsDone) {
  ASSERT_TRUE(Note(1).ok());
  ASSERT_TRUE(Note(2).ok());
  int turns = 0;
  while_waiting_ = [&] {
    if (++turns == 3) FinishAll();
  };
  EXPECT_TRUE(tracker_->Await(*session_, 3).ok());
  EXPECT_EQ(turns, 3);
  EXPECT_FALSE(tracker_->IsBusy());
}

TEST_F(GpuWorkTrackerTest, AWaitEndsWhenTheSessionFails) {
  ASSERT_TRUE(Note(1).ok());
  while_waiting_ = [&] {
    sessions_->Abort(kSession, {Generation(), 1, control::ErrorOf(Internal("another rank"))});
  };
  EXPECT_EQ(tracker_->Await(*session_, 2).code(), StatusCode::kAborted);
  EXPECT_TRUE(tracker_->IsBusy()) << "the GPU goes on";
}

// Its peers have executed it, and so does this rank: a wait that ended would leave it half done.
TEST_F(GpuWorkTrackerTest, AWaitBelowTheFailingCommandGoesOn) {
  ASSERT_TRUE(Note(1).ok());
  sessions_->Abort(kSession, {Generation(), 10, control::ErrorOf(Internal("another rank"))});
  int turns = 0;
  while_waiting_ = [&] {
    if (++turns == 3) FinishAll();
  };
  EXPECT_TRUE(tracker_->Await(*session_, 2).ok());
  EXPECT_EQ(turns, 3);
}

TEST_F(GpuWorkTrackerTest, WaitsOfTheProcessorEndWhenTheSessionFails) {
  auto& processor = static_cast<FakeDeviceProcessor&>(gpu_->processor());
  EXPECT_TRUE(processor.limit.interrupted().ok());
  running_.number = 6;
  sessions_->Abort(kSession, {Generation(), 7, control::ErrorOf(Internal("another rank"))});
  EXPECT_TRUE(processor.limit.interrupted().ok()) << "this command comes before the failure";
  running_.number = 7;
  EXPECT_EQ(processor.limit.interrupted().code(), StatusCode::kAborted);
}

TEST_F(GpuWorkTrackerTest, MakesRoomWhenTooMuchIsInFlight) {
  for (uint64_t command = 1; command < GpuWorkTracker::kMostInFlight; ++command) {
    ASSERT_TRUE(Note(command).ok());
    ASSERT_TRUE(tracker_->MakeRoom(*session_, command).ok());
  }
  ASSERT_TRUE(Note(GpuWorkTracker::kMostInFlight).ok());
  size_t done = 0;
  while_waiting_ = [&] { gpu_->marks[done++]->is_done = true; };
  EXPECT_TRUE(tracker_->MakeRoom(*session_, GpuWorkTracker::kMostInFlight).ok());
  EXPECT_EQ(done, GpuWorkTracker::kMostInFlight / 2);
}

TEST_F(GpuWorkTrackerTest, AnErrorFailsTheSessionOfTheOldestCommand) {
  ASSERT_TRUE(Note(7, "scale").ok());
  ASSERT_TRUE(Note(8, "add").ok());
  gpu_->marks[0]->error = Internal("a kernel failed");
  tracker_->Look();
  EXPECT_TRUE(session_->Skips(7));
  EXPECT_FALSE(session_->Skips(6));
  EXPECT_EQ(session_->failure().command, 7u);
  EXPECT_EQ(session_->failure().function, "scale");
  EXPECT_THAT(session_->failure().message, HasSubstr("a kernel failed"));
  EXPECT_EQ(channel_.sent().size(), 1u) << "the controller is told once";
  EXPECT_TRUE(tracker_->loss().ok());
}

TEST_F(GpuWorkTrackerTest, AGpuThatIsLostBlamesWhatItHadToDoAndForgetsIt) {
  ASSERT_TRUE(Note(7, "scale").ok());
  ASSERT_TRUE(Note(8, "add").ok());
  gpu_->loss = Internal("an illegal address");
  EXPECT_TRUE(tracker_->BlameLoss());
  EXPECT_THAT(session_->failure().message, HasSubstr("an illegal address"));
  EXPECT_THAT(session_->failure().message,
              HasSubstr("command 7 (scale), or one of the 1 after it"));
  EXPECT_THAT(Message(tracker_->loss()), HasSubstr("the GPU is lost to this process"));
  EXPECT_FALSE(tracker_->IsBusy());
  EXPECT_FALSE(tracker_->BlameLoss()) << "it is known";
  EXPECT_EQ(tracker_->Await(*session_, 9).code(), StatusCode::kInternal);
}

TEST_F(GpuWorkTrackerTest, AnIdleGpuThatIsLostBlamesNothing) {
  gpu_->loss = Internal("fallen off the bus");
  tracker_->Look();
  EXPECT_THAT(Message(tracker_->loss()), HasSubstr("fallen off the bus"));
  EXPECT_FALSE(session_->has_failed());
}

TEST_F(GpuWorkTrackerTest, WorkOfASessionThatFailedMeanwhileIsNoValue) {
  const registers::Value result = Make(kResult);
  sessions_->Abort(kSession, {Generation(), 5, control::ErrorOf(Internal("another rank"))});
  const Status noted = tracker_->Note(
      *session_, {.command = 5, .what = "scale", .may_have_used = true, .result = &result});
  EXPECT_EQ(noted.code(), StatusCode::kAborted);
  EXPECT_FALSE(Holds(kResult));
}

TEST_F(GpuWorkTrackerTest, WhatACutOffCollectiveWasToWriteIsNoValue) {
  Make(kSource);
  Make(kResult);
  (void)NoteAllReduce(4);
  tracker_->CutOffCollectives(*session_, session_->generation(), 5);
  EXPECT_TRUE(Holds(kResult)) << "it comes before what is cut off";
  tracker_->CutOffCollectives(*session_, session_->generation(), 4);
  EXPECT_FALSE(Holds(kResult));
  EXPECT_TRUE(Holds(kSource));
}

TEST_F(GpuWorkTrackerTest, ACollectiveThatEndsWellIsCounted) {
  Make(kSource);
  Make(kResult);
  const auto end = NoteAllReduce(4);
  EXPECT_TRUE(tracker_->TakeNoted());
  end->is_done = true;
  tracker_->Look();
  EXPECT_FALSE(tracker_->IsBusy());
  EXPECT_TRUE(Holds(kResult));
  EXPECT_FALSE(recorder_.collectives().List().empty());
}

TEST_F(GpuWorkTrackerTest, ACollectiveWithoutCommunicationIsNotNoted) {
  gpu_->last_communication = {};
  capnp::MallocMessageBuilder message;
  auto collective = message.initRoot<wire::Command>().initCollective();
  tracker_->NoteCollective(session_, 4, collective.asReader(), {}, 10s);
  EXPECT_FALSE(tracker_->TakeNoted());
}

TEST_F(GpuWorkTrackerTest, AConnectionThatFailsFailsTheSessionOnce) {
  Make(kSource);
  Make(kResult);
  (void)NoteAllReduce(4);
  connection_->health = Unavailable("rank 1 does not answer");
  tracker_->Look();
  EXPECT_TRUE(session_->Skips(4));
  EXPECT_EQ(session_->failure().function, "allreduce");
  EXPECT_TRUE(connection_->is_aborted());
  tracker_->Look();
  EXPECT_EQ(channel_.sent().size(), 1u);
}

TEST_F(GpuWorkTrackerTest, WithoutOtherRanksCollectivesAreCutOff) {
  Make(kSource);
  Make(kResult);
  (void)NoteAllReduce(4);
  tracker_->GiveUp();
  EXPECT_TRUE(connection_->is_aborted());
  EXPECT_FALSE(Holds(kResult));
}

TEST_F(GpuWorkTrackerTest, WhatIsGivenUpEndsAfterWhatIsNot) {
  Make(kSource);
  Make(kResult);
  const auto end = NoteAllReduce(4);
  (void)NoteAllReduce(6);
  sessions_->Abort(kSession, {Generation(), 5, control::ErrorOf(Internal("another rank"))});
  EXPECT_FALSE(connection_->is_aborted());
  ASSERT_EQ(gpu_->aborted_after.size(), 1u);
  EXPECT_EQ(gpu_->aborted_after[0].first, connection_);
  EXPECT_EQ(gpu_->aborted_after[0].second, end);
}

TEST_F(GpuWorkTrackerTest, AFunctionsArgumentsAreUsedAfterCommunication) {
  class OnDevice final : public tensor::Storage {
   public:
    OnDevice() : Storage(reinterpret_cast<void*>(64), 16, Device{DeviceType::kCuda, 0}) {}
  };
  const registers::Value arguments[] = {
      *tensor::Tensor::FromStorage(std::make_shared<OnDevice>(), 0, DType::kFloat32, {4}),
      Make(kSource)};
  EXPECT_TRUE(tracker_->BeforeCall(arguments).ok());
  ASSERT_EQ(gpu_->before_compute.size(), 1u) << "host memory is not the GPU's business";
  EXPECT_EQ(gpu_->before_compute[0].size_bytes, 16u);
}

}  // namespace
}  // namespace lockstep::worker
