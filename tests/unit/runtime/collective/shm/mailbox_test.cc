#include "runtime/collective/shm/mailbox.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "tests/unit/runtime/collective/shm/teams.h"

namespace lockstep::collective::shm {
namespace {

using Elements = std::vector<int32_t>;

class MailboxTest : public testing::Test {
 protected:
  Teams teams_{2};
  Mailbox first_{teams_[0]};
  Mailbox second_{teams_[1]};
};

Elements Counting(size_t count) {
  Elements elements(count);
  std::iota(elements.begin(), elements.end(), 0);
  return elements;
}

Buffer BufferOf(Elements& elements) { return ViewOf(elements.data(), elements.size()); }

TEST_F(MailboxTest, AShortMessageIsSentBeforeAnybodyWantsIt) {
  Elements sent = Counting(8);
  ASSERT_TRUE(first_.Send(BufferOf(sent), 1, Patience()).ok());
  sent.assign(8, -1);  // its own again
  Elements received(8);
  ASSERT_TRUE(second_.Recv(BufferOf(received), 0, Patience()).ok());
  EXPECT_EQ(received, Counting(8));
}

TEST_F(MailboxTest, TheSecondShortMessageWaitsUntilTheFirstIsTaken) {
  Elements sent = Counting(8);
  ASSERT_TRUE(first_.Send(BufferOf(sent), 1, Patience()).ok());
  ExpectWoken(
      teams_, [&] { return first_.Send(BufferOf(sent), 1, Patience()); },
      [&] {
        Elements received(8);
        EXPECT_TRUE(second_.Recv(BufferOf(received), 0, Patience()).ok());
      });
}

TEST_F(MailboxTest, ASendWakesAReceiverThatSleeps) {
  Elements received(8);
  ExpectWoken(
      teams_, [&] { return first_.Recv(BufferOf(received), 1, Patience()); },
      [&] {
        Elements sent = Counting(8);
        EXPECT_TRUE(second_.Send(BufferOf(sent), 0, Patience()).ok());
      });
  EXPECT_EQ(received, Counting(8));
}

// From memory that the receiver cannot reach, in pieces.
TEST_F(MailboxTest, AReceiverWakesASenderThatSleeps) {
  constexpr size_t kCount = 700'000;
  Elements sent = Counting(kCount);
  Elements received(kCount);
  ExpectWoken(
      teams_, [&] { return first_.Send(BufferOf(sent), 1, Patience()); },
      [&] { EXPECT_TRUE(second_.Recv(BufferOf(received), 0, Patience()).ok()); });
  EXPECT_EQ(received, sent);
  EXPECT_EQ(teams_.arena(0).Stats().live_blocks, 0u) << "what it was copied through is returned";
}

TEST_F(MailboxTest, AMessageInTheArenaIsReadWhereItIs) {
  constexpr size_t kCount = 10'000;
  const auto storage = *teams_.arena(0).Allocate(kCount * sizeof(int32_t));
  auto* data = static_cast<int32_t*>(storage->data());
  std::iota(data, data + kCount, 0);
  Elements received(kCount);
  ExpectWoken(
      teams_, [&] { return first_.Send(ViewOf(data, kCount), 1, Patience()); },
      [&] {
        const Outbox& outbox = teams_[0].own().outbox(1);
        EXPECT_GE(outbox.seq.load(std::memory_order_acquire), 1u) << "the rest belongs to it";
        EXPECT_EQ(outbox.payload.at.send_offset, teams_.arena(0).OffsetOf(data));
        EXPECT_TRUE(second_.Recv(BufferOf(received), 0, Patience()).ok());
      });
  EXPECT_EQ(received, Counting(kCount));
}

TEST_F(MailboxTest, AReceiverThatExpectsSomethingElseRefuses) {
  Elements sent = Counting(100);
  Elements received(99);
  Status refusal;
  ExpectWoken(
      teams_,
      [&] {
        refusal = first_.Send(BufferOf(sent), 1, Patience());
        return OkStatus();
      },
      [&] {
        EXPECT_EQ(second_.Recv(BufferOf(received), 0, Patience()).code(),
                  StatusCode::kInvalidArgument);
      });
  EXPECT_EQ(refusal.code(), StatusCode::kInvalidArgument) << refusal;
  EXPECT_EQ(received, Elements(99)) << "nothing was copied";
}

TEST_F(MailboxTest, AMessageOfASenderThatLeftIsNotRead) {
  Elements sent = Counting(100);
  EXPECT_EQ(first_.Send(BufferOf(sent), 1, Deadline::After(std::chrono::milliseconds(1))).code(),
            StatusCode::kDeadlineExceeded);
  Elements received(100);
  const Status status = second_.Recv(BufferOf(received), 0, Patience());
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_NE(Message(status).find("rank 0 gave up sending to rank 1"), std::string::npos) << status;
  EXPECT_EQ(received, Elements(100));
}

}  // namespace
}  // namespace lockstep::collective::shm
