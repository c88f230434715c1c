#include "runtime/client/open_batch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "runtime/client/link.h"
#include "runtime/client/register_names.h"
#include "runtime/client/session_recorder.h"
#include "tests/support/patience.h"
#include "tests/unit/runtime/client/fake_controller.h"

namespace lockstep::client {
namespace {

using namespace std::chrono_literals;

class OpenBatchTest : public testing::Test {
 protected:
  explicit OpenBatchTest(std::chrono::milliseconds lease = 60s) { controller_.lease = lease; }
  void SetUp() override {
    link_ = controller_.Connect();
    batch_ = std::make_unique<OpenBatch>(*link_, *names_, recorder_);
  }
  ~OpenBatchTest() override { names_->Unref(); }

  void AppendSync() {
    ASSERT_EQ(batch_->Append([](wire::Command::Builder command) { command.setSync(); }),
              OkStatus());
  }

  FakeController controller_;
  std::unique_ptr<Link> link_;
  RegisterNames* const names_ = RegisterNames::Create(SessionId(1));
  SessionRecorder recorder_{SessionId(1)};
  std::unique_ptr<OpenBatch> batch_;
};

TEST_F(OpenBatchTest, TheLastCommandIsTakenBackUnlessItWasSent) {
  AppendSync();
  const uint64_t next = batch_->next_command();
  AppendSync();
  batch_->TakeBackLast();
  EXPECT_EQ(batch_->next_command(), next);
  ASSERT_EQ(batch_->Send(), OkStatus());
  batch_->TakeBackLast();
  EXPECT_EQ(batch_->next_command(), next);
  ASSERT_EQ(controller_.batches.size(), 1u);
  EXPECT_EQ(controller_.batches[0].commands.size(), 1u);
}

// As many as come in a moment: how many of them looked at the clock is the machine's affair.
TEST_F(OpenBatchTest, OfABurstSomeSkipTheClockAndNoneAfterItsEnd) {
  int skipped = 0;
  bool waits = false;
  ASSERT_EQ(batch_->Send(), OkStatus());
  const Deadline late = Deadline::After(support::kLong);
  while (skipped < 100 && !late.Expired()) {
    if (batch_->skips_clock()) ++skipped;
    AppendSync();
    const size_t sent = controller_.batches.size();
    waits = false;
    ASSERT_EQ(batch_->SendIfDue(&waits), OkStatus());
    const bool was_sent = controller_.batches.size() > sent;
    EXPECT_NE(was_sent, waits) << "a command that is not sent is waited for";
    EXPECT_FALSE(was_sent && batch_->skips_clock());
  }
  EXPECT_EQ(skipped, 100);
  ASSERT_EQ(batch_->Send(), OkStatus());
  EXPECT_FALSE(batch_->skips_clock());
}

class SilentControllerTest : public OpenBatchTest {
 protected:
  SilentControllerTest() : OpenBatchTest(20ms) {}
  void SetUp() override {
    OpenBatchTest::SetUp();
    const Deadline late = Deadline::After(support::kLong);
    while (link_->Lost().ok() && !late.Expired()) link_->NoteRound();
    ASSERT_FALSE(link_->Lost().ok());
  }
};

TEST_F(SilentControllerTest, CommandsWaitAndKillsAreKept) {
  { const DRef dropped = names_->Acquire(batch_->next_command()); }
  AppendSync();
  bool waits = false;
  EXPECT_EQ(batch_->SendIfDue(&waits), OkStatus()) << "the next command is told";
  EXPECT_TRUE(waits);
  EXPECT_FALSE(batch_->skips_clock());
  EXPECT_EQ(batch_->Send().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(controller_.batches.empty());

  const Deadline late = Deadline::After(support::kLong);
  Status sent = Unavailable("not tried yet");
  while (!sent.ok() && !late.Expired()) {
    controller_.Say([](wire::ControllerMessage::Builder message) { message.initCredit(); });
    link_->Drain();
    sent = batch_->Send();
  }
  ASSERT_EQ(sent, OkStatus());
  ASSERT_EQ(controller_.batches.size(), 1u);
  EXPECT_EQ(controller_.batches[0].commands.size(), 2u);
  EXPECT_EQ(controller_.released.size(), 1u);
}

}  // namespace
}  // namespace lockstep::client
