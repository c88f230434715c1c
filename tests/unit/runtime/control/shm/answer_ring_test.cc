#include "runtime/control/shm/answer_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/runtime/control/shm/test_rings.h"

namespace lockstep::control {
namespace {

constexpr uint64_t kRoom = 128;

class AnswerRingTest : public testing::Test {
 protected:
  Status TakeStatus() {
    uint64_t number = 0;
    Message message;
    return reader_.Take(&number, &message).status();
  }
  void Put(uint64_t at, uint64_t word) { WordRing(memory_.ring()).Store(at, word); }
  void Publish(uint64_t head) { memory_.header().head.store(head); }
  // A header's first word.
  static uint64_t Word(uint64_t words, uint64_t frames, uint64_t kind) {
    return words | frames << 32 | kind << 48;
  }

  TestPages pages_{AnswerMemory::SizeBytes(kRoom)};
  const AnswerMemory memory_{pages_.data(), kRoom};
  std::atomic<uint64_t> taken_{0};
  AnswerWriter writer_{memory_, taken_};
  AnswerReader reader_{memory_, taken_};
};

TEST_F(AnswerRingTest, AllMessagesComeInOrderAroundTheEndOfTheRing) {
  constexpr uint64_t kMessages = 4'000;
  std::thread writing([this] {
    for (uint64_t number = 1; number <= kMessages; ++number) {
      while (!writer_.Write(number, Numbered(number))) std::this_thread::yield();
    }
  });
  uint64_t number = 0;
  Message message;
  uint64_t expected = 1;
  while (expected <= kMessages) {
    const StatusOr<bool> taken = reader_.Take(&number, &message);
    if (!taken.ok() || (*taken && (number != expected || NumberOf(message) != expected))) break;
    if (*taken) {
      ++expected;
    } else {
      std::this_thread::yield();
    }
  }
  // Lets the writer end also if the test fails.
  while (expected <= kMessages && reader_.Take(&number, &message).ok() && number < kMessages) {
  }
  writing.join();
  EXPECT_EQ(expected, kMessages + 1);
}

TEST_F(AnswerRingTest, AFullRingTakesNothingUntilItIsRead) {
  uint64_t written = 0;
  while (writer_.Write(written + 1, Numbered(5))) ++written;
  ASSERT_GT(written, 0u);
  uint64_t number = 0;
  Message message;
  ASSERT_TRUE(*reader_.Take(&number, &message));
  EXPECT_TRUE(writer_.Write(written + 1, Numbered(5)));
}

TEST_F(AnswerRingTest, AMessageThatIsLargerThanTheRingIsNotWritten) {
  const std::vector<char> large(2 * kRoom * kRingWordBytes);
  EXPECT_FALSE(writer_.Write(1, {Frame::Copy(large.data(), large.size())}));
  EXPECT_FALSE(writer_.Write(1, Message(kMaxRecordFrames + 1)));
  EXPECT_FALSE(reader_.HasInput());
}

TEST_F(AnswerRingTest, AHeadBeyondTheRingIsRefused) {
  Publish(kRoom + 1);
  EXPECT_EQ(TakeStatus().code(), StatusCode::kInvalidArgument);
  Publish(~uint64_t{0});
  EXPECT_EQ(TakeStatus().code(), StatusCode::kInvalidArgument);
}

TEST_F(AnswerRingTest, LengthsThatCannotBeAreRefused) {
  const uint64_t kMessage = static_cast<uint64_t>(RecordKind::kMessage);
  Publish(8);
  for (const uint64_t word :
       {Word(0, 0, kMessage), Word(1, 0, kMessage), Word(9, 0, kMessage),
        Word(0xffffffff, 0, kMessage), Word(3, 2, kMessage),
        Word(8, kMaxRecordFrames + 1, kMessage), Word(8, 1, 0),
        Word(8, 1, static_cast<uint64_t>(RecordKind::kBySocket)), Word(8, 1, 77)}) {
    Put(0, word);
    EXPECT_EQ(TakeStatus().code(), StatusCode::kInvalidArgument) << word;
  }
}

TEST_F(AnswerRingTest, FramesThatAreLargerOrSmallerThanTheirRecordAreRefused) {
  Publish(8);
  Put(0, Word(8, 2, static_cast<uint64_t>(RecordKind::kMessage)));
  for (const uint64_t size : {~uint64_t{0}, ~uint64_t{0} - 6, uint64_t{33}, uint64_t{16}}) {
    Put(2, size);
    Put(3, 0);
    EXPECT_EQ(TakeStatus().code(), StatusCode::kInvalidArgument) << size;
    Put(2, 8);
    Put(3, size);
    EXPECT_EQ(TakeStatus().code(), StatusCode::kInvalidArgument) << size;
  }
  Put(2, 7);
  Put(3, 24);
  EXPECT_TRUE(TakeStatus().ok());
}

TEST_F(AnswerRingTest, WhatIsWrittenOverWhileItIsReadIsTakenWholeOrRefused) {
  std::atomic<bool> has_ended{false};
  // A hostile peer that changes everything all the time.
  std::thread hostile([this, &has_ended] {
    std::mt19937_64 random(4);
    for (int i = 0; i < 20'000; ++i) {
      const uint64_t at = random() % kRoom;
      Put(at, random() % 2 == 0 ? random() : Word(random() % 20, random() % 4, 1));
      Publish(random() % 4 == 0 ? random() : taken_.load() + random() % kRoom);
    }
    has_ended = true;
  });
  size_t largest = 0;
  uint64_t sum = 0;  // of all bytes, so that each is looked at
  while (!has_ended) {
    uint64_t number = 0;
    Message message;
    const StatusOr<bool> got = reader_.Take(&number, &message);
    if (!got.ok() || !*got) continue;
    size_t size = 0;
    for (const Frame& frame : message) {
      size += frame.size();
      for (size_t at = 0; at < frame.size(); ++at) sum += static_cast<uint64_t>(frame.data()[at]);
    }
    largest = std::max(largest, size);
  }
  hostile.join();
  EXPECT_LE(largest, kRoom * kRingWordBytes) << sum;
}

}  // namespace
}  // namespace lockstep::control
