#include "runtime/control/shm/ring_output.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "runtime/control/shm/broadcast_pages.h"
#include "runtime/control/shm/broadcast_ring.h"
#include "tests/unit/runtime/control/shm/test_rings.h"

namespace lockstep::control {
namespace {

constexpr uint64_t kRingWords = 1024;

// A ring that is full, of whose one reader nothing has been read.
class RingOutputTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto pages = BroadcastPages::Create(1, kRingWords);
    ASSERT_TRUE(pages.ok()) << pages.status();
    output_ = std::make_unique<RingOutput>(*pages);
    const uint64_t start = output_->writer().AddReader(0, &read_);
    reader_ = std::make_unique<BroadcastReader>(output_->memory(), 0, start, read_);
    while (!output_->is_waiting()) Publish();
  }
  void Publish() { output_->Publish(RecordKind::kMessage, kAllReaders, Numbered(0)); }
  // How many words the reader takes until it is to tell that there is room.
  uint64_t WordsUntilRoom() {
    uint64_t words = 0;
    while (!reader_->GivesAwaitedRoom()) {
      Message message;
      const auto next = reader_->Take(&message);
      if (!next.ok() || *next != BroadcastReader::Next::kMessage) return ~uint64_t{0};
      words += RecordWords(message);
    }
    return words;
  }

  std::atomic<uint64_t> read_{0};
  std::unique_ptr<RingOutput> output_;
  std::unique_ptr<BroadcastReader> reader_;
};

TEST_F(RingOutputTest, OneThatWaitsIsToldOfRoomForIt) {
  EXPECT_LT(WordsUntilRoom(), 2 * RecordWords(Numbered(0)));
  EXPECT_TRUE(output_->PublishWaiting());
  EXPECT_FALSE(output_->is_waiting());
  EXPECT_FALSE(reader_->GivesAwaitedRoom());
}

TEST_F(RingOutputTest, ManyThatWaitAreToldOfRoomForManyAtOnce) {
  for (int i = 0; i < 100; ++i) Publish();
  const size_t waiting = output_->waiting();
  const uint64_t room = WordsUntilRoom();
  EXPECT_GT(room + RecordWords(Numbered(0)), BroadcastWriter::LargestOf(kRingWords));
  EXPECT_LT(room, 2 * BroadcastWriter::LargestOf(kRingWords));
  EXPECT_TRUE(output_->PublishWaiting());
  EXPECT_GE(waiting - output_->waiting(), room / RecordWords(Numbered(0)) - 1);
}

}  // namespace
}  // namespace lockstep::control
