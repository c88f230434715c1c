#include "services/controller/common/batch_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "runtime/control/batch.h"
#include "runtime/control/message_codec.h"
#include "schemas/control.capnp.h"

namespace lockstep::controller {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr FlowLimits kLimits{4096, 1024};
constexpr Deadline::Clock::time_point kNow(std::chrono::hours(1));
// What a client may have under way that keeps to the window.
const uint64_t kMost = 4096 + 2 * control::FlowCost(1024) + (uint64_t{8} << 20);

TEST(CommandStreamTest, BatchesFollowOneAnother) {
  CommandStream commands(SessionId(1), 2);
  EXPECT_EQ(commands.next_command(), 1u);
  EXPECT_EQ(commands.Admit(kLimits, 1, 3, 100), OkStatus());
  EXPECT_EQ(commands.Admit(kLimits, 4, 1, 50), OkStatus());
  EXPECT_EQ(commands.next_command(), 5u);
  EXPECT_EQ(commands.sent_bytes(), 150u);
}

TEST(CommandStreamTest, AGapAndARepetitionAreRefusedAndChangeNothing) {
  CommandStream commands(SessionId(7), 2);
  ASSERT_EQ(commands.Admit(kLimits, 1, 3, 100), OkStatus());
  const Status gap = commands.Admit(kLimits, 5, 1, 100);
  EXPECT_EQ(gap.code(), StatusCode::kDataLoss);
  EXPECT_THAT(Message(gap), HasSubstr("session 7 sent a batch that begins with command 5 where "
                                      "command 4 was expected"));
  EXPECT_EQ(commands.Admit(kLimits, 1, 3, 100).code(), StatusCode::kDataLoss);
  EXPECT_EQ(commands.next_command(), 4u);
  EXPECT_EQ(commands.sent_bytes(), 100u);
}

TEST(CommandStreamTest, NoMoreIsUnderWayThanAClientThatKeepsToItsWindowMayHave) {
  CommandStream commands(SessionId(1), 2);
  ASSERT_EQ(commands.Admit(kLimits, 1, 1, kMost), OkStatus());
  EXPECT_EQ(commands.Admit(kLimits, 2, 1, 1).code(), StatusCode::kResourceExhausted);
  EXPECT_FALSE(commands.Consume(0, 10)) << "rank 1 has consumed nothing";
  EXPECT_EQ(commands.Admit(kLimits, 2, 1, 1).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(commands.Consume(1, 1));
  EXPECT_EQ(commands.Admit(kLimits, 2, 1, 1), OkStatus());
}

TEST(CommandStreamTest, SlowestWorkerCounts) {
  CommandStream commands(SessionId(1), 3);
  EXPECT_EQ(commands.SlowestConsumed(), 0u);
  commands.Consume(0, 300);
  commands.Consume(1, 100);
  commands.Consume(2, 200);
  EXPECT_EQ(commands.SlowestConsumed(), 100u);
}

TEST(CommandStreamTest, UnderWayIsWhatTheSlowestLivingWorkerHasYetToConsume) {
  CommandStream commands(SessionId(1), 2);
  EXPECT_EQ(commands.UnderWay(), 0u);
  ASSERT_EQ(commands.Admit(kLimits, 1, 1, 500), OkStatus());
  EXPECT_EQ(commands.UnderWay(), 500u);
  commands.Leave(0);
  commands.Consume(1, 200);
  EXPECT_EQ(commands.UnderWay(), 300u);
  commands.Leave(1);
  EXPECT_EQ(commands.UnderWay(), 0u);
}

TEST(CommandStreamTest, LastWordsOfALostWorkerCountForNothing) {
  CommandStream commands(SessionId(1), 2);
  ASSERT_EQ(commands.Admit(kLimits, 1, 1, 500), OkStatus());
  commands.Leave(0);
  EXPECT_FALSE(commands.Consume(0, 1));
  EXPECT_TRUE(commands.Consume(1, 500));
  EXPECT_EQ(commands.credit(), 500u);
}

TEST(CommandStreamTest, NewWorkerHasNothingUnderWay) {
  CommandStream commands(SessionId(1), 2);
  ASSERT_EQ(commands.Admit(kLimits, 1, 1, 500), OkStatus());
  commands.Consume(1, 500);
  commands.Leave(0);
  commands.Join(0);
  EXPECT_EQ(commands.UnderWay(), 0u);
  ASSERT_EQ(commands.Admit(kLimits, 2, 1, 100), OkStatus());
  EXPECT_EQ(commands.UnderWay(), 100u);
}

TEST(CommandStreamTest, ResetSkipsWhatWasLostAndGivesItsBytesBack) {
  CommandStream commands(SessionId(1), 1);
  ASSERT_EQ(commands.Admit(kLimits, 1, 2, 500), OkStatus());
  commands.Consume(0, 500);
  EXPECT_TRUE(commands.Reset(10, 1700));
  EXPECT_EQ(commands.next_command(), 10u);
  EXPECT_EQ(commands.reset_at(), 10u);
  EXPECT_EQ(commands.credit(), 1700u) << "1200 bytes were lost on their way";
  EXPECT_EQ(commands.Admit(kLimits, 10, 1, 100), OkStatus());
  commands.Consume(0, 600);
  EXPECT_EQ(commands.credit(), 1800u);
  commands.ForgetLostBytes();
  EXPECT_EQ(commands.credit(), 600u);
}

TEST(CommandStreamTest, ResetWithoutALossSkipsNothing) {
  CommandStream commands(SessionId(1), 1);
  ASSERT_EQ(commands.Admit(kLimits, 1, 2, 500), OkStatus());
  EXPECT_FALSE(commands.Reset(3, 500));
  EXPECT_FALSE(commands.Reset(0, 0)) << "nothing was lost, it says";
  EXPECT_EQ(commands.next_command(), 3u);
  EXPECT_EQ(commands.reset_at(), 3u);
  EXPECT_EQ(commands.credit(), 0u);
}

TEST(CommandStreamTest, ClientThatReportsFewerBytesThanCameHasLostNone) {
  CommandStream commands(SessionId(1), 1);
  ASSERT_EQ(commands.Admit(kLimits, 1, 1, 500), OkStatus());
  EXPECT_TRUE(commands.Reset(5, 100));
  EXPECT_EQ(commands.credit(), 0u);
}

TEST(CommandStreamTest, CreditOfASessionWithoutWorkersIsAllThatItsClientHasSent) {
  CommandStream commands(SessionId(1), 2);
  ASSERT_EQ(commands.Admit(kLimits, 1, 2, 500), OkStatus());
  ASSERT_TRUE(commands.Reset(10, 1700)) << "1200 bytes were lost on their way";
  ASSERT_EQ(commands.Admit(kLimits, 10, 1, 4096), OkStatus());
  commands.Leave(0);
  EXPECT_EQ(commands.credit(), 1200u) << "rank 1 has consumed nothing";
  commands.Leave(1);
  EXPECT_EQ(commands.credit(), 1700u + 4096u);
  commands.Join(0);
  commands.Join(1);
  EXPECT_EQ(commands.credit(), 1700u + 4096u) << "it never shrinks";
}

TEST(BatchOrderTest, NumbersAreGivenOneByOneWhateverTheSession) {
  BatchOrder order;
  EXPECT_EQ(order.last(), 0u);
  for (uint64_t number = 1; number <= 3; ++number) {
    const control::Frame envelope =
        order.Place({SessionId(static_cast<uint32_t>(number)), Generation(4), 17, RequestId(9)},
                    Epoch(5), kNow);
    ASSERT_EQ(control::DecodeMessage<wire::Envelope>(envelope,
                                                     [&](wire::Envelope::Reader reader) {
                                                       EXPECT_EQ(reader.getEpoch(), 5u);
                                                       EXPECT_EQ(reader.getSequence(), number);
                                                       EXPECT_EQ(reader.getSession(), number);
                                                       EXPECT_EQ(reader.getGeneration(), 4u);
                                                       EXPECT_EQ(reader.getFirstCommand(), 17u);
                                                       EXPECT_EQ(reader.getRequest(), 9u);
                                                       EXPECT_TRUE(reader.isBatch());
                                                       return OkStatus();
                                                     }),
              OkStatus());
    EXPECT_EQ(order.last(), number);
  }
}

TEST(BatchOrderTest, EnvelopeTellsHowLongABatchTookSoFar) {
  BatchOrder order;
  const control::Frame envelope =
      order.Place({SessionId(1), Generation(), 1, RequestId(), 3us, kNow - 5us}, Epoch(5), kNow);
  (void)control::DecodeMessage<wire::Envelope>(envelope, [&](wire::Envelope::Reader reader) {
    EXPECT_EQ(reader.getClientNanos(), 3000u);
    EXPECT_EQ(reader.getControllerNanos(), 5000u);
    EXPECT_EQ(reader.getSentNanos(),
              static_cast<uint64_t>(std::chrono::nanoseconds(kNow.time_since_epoch()).count()));
    return OkStatus();
  });
}

}  // namespace
}  // namespace lockstep::controller
