#include "services/worker/execute/command_runner.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "runtime/base/deadline.h"
#include "runtime/base/random.h"
#include "runtime/base/shared_segment.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "tests/support/fake_channel.h"
#include "tests/unit/services/worker/fake_communicator.h"

namespace lockstep::worker {
namespace {

// With one session, as rank 0 of two.
class CommandRunnerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto arena = tensor::Arena::Create(
        {.name = std::string(SharedSegment::kNamePrefix) + "runner-" + RandomHex(8),
         .capacity_bytes = size_t{16} << 20});
    ASSERT_TRUE(arena.ok()) << arena.status();
    arena_ = *std::move(arena);
    auto bulk = control::ZmqListen(context_, "inproc://runner-" + RandomHex(4));
    ASSERT_TRUE(bulk.ok()) << bulk.status();
    bulk_ = std::make_unique<BulkServer>(*std::move(bulk));
    membership_.segments = {arena_->name(), "another"};
    membership_.collective_timeout = std::chrono::seconds(20);
    sessions_ =
        std::make_unique<SessionDirectory>(registers::RegisterFile::Limits(), *arena_, *bulk_);
    sessions_->AdoptWelcome(membership_);
    sessions_->Open({.id = SessionId(3)});
    session_ = sessions_->Find(SessionId(3));
    reports_.SetController(membership_, channel_);
    runner_ = std::make_unique<CommandRunner>(CommandRunner::Parts{
        options_, *arena_, functions_, *bulk_, reports_, activity_, &recorder_, running_, kGrace});
    runner_->SetMembership(membership_);
    runner_->SetWorld({&world_});
    running_.batch = &batch_;
    running_.number = 7;
  }

  template <typename Fill>
  Status Run(Fill fill) {
    capnp::MallocMessageBuilder message;
    auto command = message.initRoot<wire::Command>();
    fill(command);
    return runner_->Run(session_, command.asReader());
  }

  static constexpr std::chrono::milliseconds kGrace{20'000};
  const WorkerOptions options_{};
  std::shared_ptr<control::ZmqContext> context_ = control::ZmqContext::Create();
  std::shared_ptr<tensor::Arena> arena_;
  std::unique_ptr<BulkServer> bulk_;
  const module::FunctionTable functions_{};
  FakeCommunicator::Log log_;
  FakeCommunicator world_{log_};
  Membership membership_;
  BatchContext batch_;
  std::unique_ptr<SessionDirectory> sessions_;
  std::shared_ptr<SessionState> session_;
  control::ActivityPage activity_;
  Recorder recorder_;
  ControllerReports reports_{&recorder_};
  support::FakeChannel channel_;
  RunningCommand running_{activity_};
  std::unique_ptr<CommandRunner> runner_;
};

// Held by its register alone.
class Five final : public module::Function {
 public:
  const std::string& name() const override { return name_; }
  bool UsesGpuByItself() const override { return false; }
  bool MayWriteTo(size_t) const override { return false; }
  Status Call(const module::CallContext&, absl::Span<const registers::Value>,
              registers::Value* result) override {
    *result = int64_t{5};
    return OkStatus();
  }

 private:
  const std::string name_ = "five, a name that is not kept inside of its text";
};

TEST_F(CommandRunnerTest, AResultMayTakeThePlaceOfItsFunction) {
  const RegisterId function{4, 1};
  const auto call_into = [&](RegisterId result) {
    return Run([&](wire::Command::Builder command) {
      auto call = command.initCall();
      call.setFunction(function.Packed());
      call.setResult(result.Packed());
    });
  };
  const auto write_function = [&](RegisterId id) {
    return session_->Write(id, std::shared_ptr<registers::Object>(std::make_shared<Five>()));
  };
  ASSERT_TRUE(write_function(function).ok());
  EXPECT_EQ(call_into({registers::RegisterFile::kDefaultMaxRegisters, 1}).code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(running_.function, Five().name());
  ASSERT_TRUE(call_into({function.index, 2}).ok());
  const auto result = session_->registers().Read({function.index, 2});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(*(*result)->As<int64_t>(), 5);
}

// Of a hostile client, or one that has lost count.
TEST_F(CommandRunnerTest, AProgramThatTheSessionDoesNotKnowIsAnErrorThatNamesIt) {
  const Status status = Run([](wire::Command::Builder command) {
    auto known = command.initBind().initBinding().initKnown();
    known.setHigh(1);
    known.setLow(0xab);
  });
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(
      Message(status).find("000000000000000100000000000000ab is named by its key, and session "
                           "3 has none of that key here"),
      std::string::npos)
      << status;
}

// The abort has come after the executor has asked whether the command is skipped. What says OK
// counts as executed, also to the next controller.
TEST_F(CommandRunnerTest, ACollectiveThatAnAbortHasCaughtUpWithIsNotTakenForExecuted) {
  session_->Abort({Generation(), 7, control::ErrorOf(Internal("another rank"))});
  const Status status =
      Run([](auto command) { command.initCollective().setKind(wire::CollectiveKind::BARRIER); });
  EXPECT_EQ(status.code(), StatusCode::kAborted);
  EXPECT_TRUE(log_.tags.empty()) << "nothing was begun";
}

// A rank that waits for others is a consequence, if one of those says at the same time why it does
// not come. Which of the two the controller heard first was chance.
TEST_F(CommandRunnerTest, ACollectiveThatOtherRanksDidNotComeToGivesTheirCausesTheTime) {
  for (const Status& outcome :
       {DeadlineExceeded("rank 1 did not come to barrier in time"),
        Unavailable("rank 1 gave up during barrier"), Internal("of this rank alone")}) {
    session_->Reset(Generation(session_->generation().value + 1));
    log_.outcome = outcome;
    log_.runs = 0;
    std::thread other([&] {
      while (log_.runs == 0) std::this_thread::yield();
      if (outcome.code() == StatusCode::kInternal) return;
      session_->Abort({session_->generation(), 6, control::ErrorOf(Internal("the cause"))});
    });
    EXPECT_EQ(
        Run([](auto command) { command.initCollective().setKind(wire::CollectiveKind::BARRIER); }),
        outcome);
    EXPECT_EQ(session_->has_failed(), outcome.code() != StatusCode::kInternal);
    other.join();
  }
}

// It is what others wait for.
TEST_F(CommandRunnerTest, AMessageWithoutItsOtherHalfIsToldAtOnce) {
  log_.size = 2;
  log_.outcome = DeadlineExceeded("rank 1 did not come");
  const auto began = Deadline::Clock::now();
  EXPECT_EQ(Run([](auto command) {
              auto collective = command.initCollective();
              collective.setKind(wire::CollectiveKind::TRANSFER);
              collective.setRoot(1);
              collective.setPeer(0);
            }).code(),
            StatusCode::kDeadlineExceeded);
  EXPECT_LT(Deadline::Clock::now() - began, kGrace);
}

}  // namespace
}  // namespace lockstep::worker
