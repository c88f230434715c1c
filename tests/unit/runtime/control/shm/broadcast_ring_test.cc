#include "runtime/control/shm/broadcast_ring.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "tests/unit/runtime/control/shm/test_rings.h"

namespace lockstep::control {
namespace {

using Next = BroadcastReader::Next;

constexpr int kSlots = 4;
constexpr uint64_t kWords = 256;

class BroadcastRingTest : public testing::Test {
 protected:
  BroadcastReader Reader(int slot) {
    return BroadcastReader(memory_, slot, writer_.AddReader(slot, &read_[slot]), read_[slot]);
  }
  bool Write(uint64_t number, uint64_t tag = kAllReaders) {
    return writer_.Write(RecordKind::kMessage, tag, Numbered(number));
  }
  // The number of the reader's next message; none: there is none.
  static std::optional<uint64_t> Take(BroadcastReader& reader) {
    Message message;
    const StatusOr<Next> next = reader.Take(&message);
    if (!next.ok() || *next != Next::kMessage) return std::nullopt;
    return NumberOf(message);
  }

  TestPages pages_{BroadcastMemory::SizeBytes(kSlots, kWords)};
  const BroadcastMemory memory_{pages_.data(), kSlots, kWords};
  BroadcastWriter writer_{memory_};
  std::atomic<uint64_t> read_[kSlots] = {};
};

TEST_F(BroadcastRingTest, AllReadersGetAllMessagesInOrderAroundTheEndOfTheRing) {
  constexpr uint64_t kMessages = 4'000;
  std::vector<BroadcastReader> readers;
  for (int slot = 0; slot < kSlots; ++slot) readers.push_back(Reader(slot));
  std::vector<uint64_t> wrong(kSlots, 0);
  std::vector<std::thread> threads;
  for (int slot = 0; slot < kSlots; ++slot) {
    BroadcastReader* const reader = &readers[static_cast<size_t>(slot)];
    uint64_t* const is_wrong = &wrong[static_cast<size_t>(slot)];
    threads.emplace_back([reader, is_wrong] {
      for (uint64_t next = 0; next < kMessages;) {
        if (!reader->HasInput()) {
          std::this_thread::yield();
          continue;
        }
        if (Take(*reader) != next) {
          *is_wrong = next + 1;
          return;
        }
        ++next;
      }
    });
  }
  for (uint64_t number = 0; number < kMessages; ++number) {
    while (!Write(number)) {
      ASSERT_TRUE(writer_.has_readers());
      std::this_thread::yield();
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<uint64_t>(kSlots, 0));
}

TEST_F(BroadcastRingTest, ASlowReaderHoldsTheWriterBackUntilItReads) {
  BroadcastReader quick = Reader(0);
  BroadcastReader slow = Reader(1);
  uint64_t written = 0;
  while (Write(written)) ++written;
  ASSERT_GT(written, 1u);
  for (uint64_t number = 0; number < written; ++number) EXPECT_EQ(Take(quick), number);
  EXPECT_FALSE(Write(written));
  writer_.AwaitRoom(RecordWords(Numbered(written)));
  EXPECT_FALSE(slow.GivesAwaitedRoom());
  uint64_t next = 0;
  while (!slow.GivesAwaitedRoom()) {
    ASSERT_EQ(Take(slow), next++);
    if (slow.GivesAwaitedRoom()) break;
    EXPECT_FALSE(Write(written));
  }
  EXPECT_TRUE(Write(written));
  writer_.AwaitRoom(0);
  EXPECT_FALSE(slow.GivesAwaitedRoom());
  for (; next <= written; ++next) EXPECT_EQ(Take(slow), next);
  EXPECT_EQ(Take(quick), written);
}

TEST_F(BroadcastRingTest, AReaderThatIsGivenUpHoldsNobodyBackAndLearnsIt) {
  BroadcastReader lost = Reader(0);
  while (Write(0)) {
  }
  writer_.RemoveReader(0);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Write(1));
  Message message;
  EXPECT_EQ(lost.Take(&message).status().code(), StatusCode::kDataLoss);
}

TEST_F(BroadcastRingTest, AReaderThatIsOvertakenWhileItReadsNeverGetsWhatIsNotWhole) {
  std::atomic<bool> stop{false};
  std::thread writing([this, &stop] {
    for (uint64_t number = 0; !stop; ++number) (void)Write(number);
  });
  uint64_t wrong = 0;
  for (int round = 0; round < 200; ++round) {
    std::atomic<uint64_t> read{0};
    // As a process would that was stopped, and goes on when it was given up long ago.
    BroadcastReader reader(memory_, 0, memory_.header().head.load(), read);
    Message message;
    for (int i = 0; i < 50; ++i) {
      const StatusOr<Next> next = reader.Take(&message);
      if (!next.ok()) {
        if (next.status().code() != StatusCode::kDataLoss) ++wrong;
        break;
      }
      if (*next == Next::kMessage && NumberOf(message) == ~uint64_t{0}) ++wrong;
    }
  }
  stop = true;
  writing.join();
  EXPECT_EQ(wrong, 0u);
}

TEST_F(BroadcastRingTest, ANewReaderBeginsWithWhatIsWrittenAfterIt) {
  BroadcastReader first = Reader(0);
  ASSERT_TRUE(Write(1));
  BroadcastReader second = Reader(1);
  ASSERT_TRUE(Write(2));
  EXPECT_EQ(Take(first), 1u);
  EXPECT_EQ(Take(first), 2u);
  EXPECT_EQ(Take(second), 2u);
  EXPECT_EQ(Take(second), std::nullopt);
}

TEST_F(BroadcastRingTest, WhatIsForOneReaderIsSkippedByOthers) {
  BroadcastReader first = Reader(0);
  BroadcastReader second = Reader(1);
  ASSERT_TRUE(writer_.Write(RecordKind::kBySocket, 1, {}));
  ASSERT_TRUE(Write(7));
  EXPECT_EQ(Take(first), 7u);
  Message message;
  const StatusOr<Next> next = second.Take(&message);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(*next, Next::kBySocket);
  EXPECT_EQ(Take(second), 7u);
}

TEST_F(BroadcastRingTest, AReaderThatNotesWhatCannotBeIsWaitedForNoMore) {
  BroadcastReader good = Reader(0);
  (void)Reader(1);
  read_[1] = uint64_t{1} << 60;
  uint64_t written = 0;
  while (Write(written)) ++written;
  EXPECT_EQ(writer_.TakeBroken(), std::vector<int>{1});
  EXPECT_TRUE(writer_.TakeBroken().empty());
  for (uint64_t number = 0; number < written; ++number) EXPECT_EQ(Take(good), number);
  EXPECT_TRUE(Write(written));
}

TEST_F(BroadcastRingTest, AReaderThatGoesBackIsWaitedForNoMore) {
  BroadcastReader reader = Reader(2);
  while (Write(3)) {
  }
  while (Take(reader).has_value()) {
  }
  ASSERT_TRUE(Write(3));
  while (Write(3)) {
  }
  read_[2] = 1;
  EXPECT_FALSE(!Write(3) && writer_.has_readers());
  EXPECT_EQ(writer_.TakeBroken(), std::vector<int>{2});
}

}  // namespace
}  // namespace lockstep::control
