#include "runtime/client/bulk_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <numeric>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/bulk_memory.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/message_codec.h"

namespace lockstep::client {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr uint64_t kTicket = 77;

struct Answer {
  uint64_t ticket = kTicket;
  uint64_t offset = 0;
  uint64_t checksum = 0;
  Status error;
  std::vector<uint8_t> data;
  bool is_read = false;
  bool commands_came = false;
};

// A worker-0 of `tensor`, which answers at once; `meddle` may change an answer, or (false) drop it.
class Worker final : public control::ClientChannel {
 public:
  explicit Worker(std::vector<uint8_t>& tensor) : tensor_(tensor), fd_(eventfd(0, 0)) {}
  ~Worker() override { close(fd_); }

  bool HasInput() override { return !answers_.empty(); }
  int wait_fd() const override { return fd_; }
  bool drained() const override { return answers_.empty(); }

  Status Send(const control::Message& message) override {
    Answer answer;
    const Status status = control::DecodeMessage<wire::BulkRequest>(
        message[0], [&](wire::BulkRequest::Reader request) -> Status {
          answer.ticket = request.getTicket();
          answer.offset = request.getOffset();
          if (request.isRead()) {
            answer.is_read = true;
            const auto begin = tensor_.begin() + static_cast<int64_t>(answer.offset);
            answer.data.assign(begin, begin + static_cast<int64_t>(request.getRead()));
            answer.checksum = Checksum(answer.data.data(), answer.data.size());
          } else {
            EXPECT_EQ(Checksum(message[1].data(), message[1].size()), request.getWrite());
            std::memcpy(tensor_.data() + answer.offset, message[1].data(), message[1].size());
          }
          return OkStatus();
        });
    offsets_asked.push_back(answer.offset);
    sizes_asked.push_back(answer.is_read ? answer.data.size() : message[1].size());
    most_unanswered = std::max(most_unanswered, answers_.size() + 1);
    if (!meddle || meddle(answer)) answers_.push_back(Encode(answer));
    return status;
  }

  bool Receive(control::Message* message) override {
    if (answers_.empty()) return false;
    *message = std::move(answers_.front());
    answers_.pop_front();
    return true;
  }

  std::function<bool(Answer&)> meddle;
  std::vector<uint64_t> offsets_asked;
  std::vector<size_t> sizes_asked;
  size_t most_unanswered = 0;

 private:
  static control::Message Encode(const Answer& answer) {
    control::Message message = {
        control::EncodeMessage<wire::BulkReply>([&](wire::BulkReply::Builder reply) {
          reply.setTicket(answer.ticket);
          reply.setOffset(answer.offset);
          reply.setChecksum(answer.checksum);
          reply.setCommandsCame(answer.commands_came);
          if (answer.error.ok()) return;
          control::WriteError(reply.initError(), control::ErrorOf(answer.error));
        })};
    if (answer.is_read && answer.error.ok()) {
      message.push_back(control::Frame::Copy(answer.data.data(), answer.data.size()));
    }
    return message;
  }

  std::vector<uint8_t>& tensor_;
  const int fd_;
  std::deque<control::Message> answers_;
};

std::vector<uint8_t> Pattern(size_t size, uint32_t seed) {
  std::vector<uint8_t> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>((i * 2654435761u + seed) >> 13);
  return bytes;
}

constexpr size_t kSize = (size_t{20} << 20) + 4321;  // some forty chunks, and a short one

class BulkTransferTest : public testing::Test {
 protected:
  BulkTransfer::Surroundings Well(std::chrono::milliseconds timeout = 60s) {
    return {[] { return OkStatus(); }, pace_, timeout};
  }
  // Bytes of the requests that a copy of all is made of, by how they are asked for.
  std::vector<size_t> RequestsOf(BulkTransfer transfer) {
    worker_.sizes_asked.clear();
    EXPECT_EQ(*transfer.Continue(worker_, kTicket, Well()), true);
    return worker_.sizes_asked;
  }

  std::vector<uint8_t> tensor_ = std::vector<uint8_t>(kSize);
  std::vector<uint8_t> memory_ = Pattern(kSize, 1);
  // Stands still: a command that has come is always the last moment's.
  BulkPace pace_{[] { return BulkPace::Clock::time_point(std::chrono::hours(1)); }};
  Worker worker_{tensor_};
};

TEST_F(BulkTransferTest, MovesEveryByteOfEverySize) {
  for (const size_t size : {size_t{1}, size_t{524'287}, size_t{524'288}, size_t{524'289}, kSize}) {
    tensor_.assign(size, 0);
    auto write = BulkTransfer::Write(memory_.data(), size);
    EXPECT_EQ(*write.Continue(worker_, kTicket, Well()), true);
    EXPECT_TRUE(std::equal(tensor_.begin(), tensor_.end(), memory_.begin())) << size;

    std::vector<uint8_t> back(size);
    auto read = BulkTransfer::Read(back.data(), size);
    EXPECT_EQ(*read.Continue(worker_, kTicket, Well()), true);
    EXPECT_TRUE(back == tensor_) << size;
  }
}

TEST_F(BulkTransferTest, BesideCommandsThereIsLittleUnderWay) {
  const std::vector<size_t> alone = RequestsOf(BulkTransfer::Write(memory_.data(), kSize));
  EXPECT_EQ(alone.size(), 41u);
  EXPECT_EQ(alone.front(), size_t{512} << 10);
  EXPECT_GE(worker_.most_unanswered, 20u);

  // The commands that the first answer tells of may have come long before the copy.
  size_t answered = 0;
  worker_.meddle = [&](Answer& answer) {
    answer.commands_came = answered++ == 0;
    return true;
  };
  EXPECT_EQ(RequestsOf(BulkTransfer::Write(memory_.data(), kSize)), alone);

  worker_.meddle = [](Answer& answer) {
    answer.commands_came = true;
    return true;
  };
  std::vector<uint8_t> back(kSize);
  EXPECT_GT(RequestsOf(BulkTransfer::Read(back.data(), kSize)).size(), 41u);
  // The next one begins as the last one ended.
  worker_.most_unanswered = 0;
  const std::vector<size_t> beside = RequestsOf(BulkTransfer::Read(back.data(), kSize));
  EXPECT_EQ(beside.size(), 161u);
  EXPECT_EQ(*std::max_element(beside.begin(), beside.end()), size_t{128} << 10);
  EXPECT_LE(worker_.most_unanswered, 2u);
  EXPECT_TRUE(back == memory_);
}

TEST_F(BulkTransferTest, DamagedChunksAreMovedAgain) {
  std::set<uint64_t> damaged;
  worker_.meddle = [&](Answer& answer) {
    if (answer.offset % (1 << 21) != 0 || !damaged.insert(answer.offset).second) return true;
    if (answer.is_read) {
      answer.data[0] ^= 1;
    } else {
      tensor_[answer.offset] ^= 1;
      answer.error = DataLoss("other bytes");
    }
    return true;
  };
  auto write = BulkTransfer::Write(memory_.data(), kSize);
  EXPECT_EQ(*write.Continue(worker_, kTicket, Well()), true);
  EXPECT_TRUE(tensor_ == memory_);
  EXPECT_GT(damaged.size(), 5u);

  damaged.clear();
  std::vector<uint8_t> back(kSize);
  auto read = BulkTransfer::Read(back.data(), kSize);
  EXPECT_EQ(*read.Continue(worker_, kTicket, Well()), true);
  EXPECT_TRUE(back == memory_);
  EXPECT_GT(damaged.size(), 5u);
}

TEST_F(BulkTransferTest, DamageAgainAndAgainIsAnError) {
  worker_.meddle = [&](Answer& answer) {
    answer.checksum ^= 1;
    return true;
  };
  auto read = BulkTransfer::Read(memory_.data(), kSize);
  const Status status = read.Continue(worker_, kTicket, Well()).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status;
  EXPECT_THAT(Message(status), HasSubstr("rank 0"));
}

TEST_F(BulkTransferTest, GoesOnOverAnotherConnectionWithWhatIsMissing) {
  size_t answered = 0;
  worker_.meddle = [&](Answer&) { return ++answered <= 10; };
  auto write = BulkTransfer::Write(memory_.data(), kSize);
  const auto begin = Deadline::Clock::now();
  EXPECT_EQ(*write.Continue(worker_, kTicket, Well()), false);
  EXPECT_LT(Deadline::Clock::now() - begin, 10s);

  Worker other(tensor_);
  EXPECT_EQ(*write.Continue(other, kTicket + 1, Well()), true);
  EXPECT_TRUE(tensor_ == memory_);
  const std::set<uint64_t> again(other.offsets_asked.begin(), other.offsets_asked.end());
  EXPECT_EQ(again.size(), other.offsets_asked.size());
  EXPECT_EQ(again.size() + 10, 41u);
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(again.count(worker_.offsets_asked[i]), 0u);
}

TEST_F(BulkTransferTest, SilenceEndsWithTheTimeOut) {
  worker_.meddle = [](Answer&) { return false; };
  auto read = BulkTransfer::Read(memory_.data(), kSize);
  const Status status = read.Continue(worker_, kTicket, Well(100ms)).status();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(Message(status), HasSubstr("100 ms; 0 B of 20.0 MiB"));
}

TEST_F(BulkTransferTest, TheSessionsEndIsTheTransfers) {
  worker_.meddle = [](Answer&) { return false; };
  auto read = BulkTransfer::Read(memory_.data(), kSize);
  const Status status =
      read.Continue(worker_, kTicket, {[] { return Unavailable("rank 0 is lost"); }, pace_, 60s})
          .status();
  EXPECT_EQ(status, Unavailable("rank 0 is lost"));
}

TEST_F(BulkTransferTest, TheWorkersErrorIsTheTransfers) {
  worker_.meddle = [](Answer& answer) {
    answer.error = NotFound("the register was freed");
    return true;
  };
  auto write = BulkTransfer::Write(memory_.data(), kSize);
  EXPECT_EQ(write.Continue(worker_, kTicket, Well()).status().code(), StatusCode::kNotFound);
}

TEST_F(BulkTransferTest, NonsenseIsAnError) {
  const std::vector<std::function<void(Answer&)>> nonsense = {
      [](Answer& answer) { answer.ticket = 5; },
      [](Answer& answer) { answer.offset += 1; },
      [](Answer& answer) { answer.offset = uint64_t{1} << 60; },
      [](Answer& answer) { answer.offset = (size_t{20} << 20); },  // not yet asked for
      [](Answer& answer) { answer.data.pop_back(); },
      [](Answer& answer) { answer.is_read = false; },
  };
  for (size_t i = 0; i < nonsense.size(); ++i) {
    Worker worker(tensor_);
    worker.meddle = [&](Answer& answer) {
      nonsense[i](answer);
      return true;
    };
    auto read = BulkTransfer::Read(memory_.data(), kSize);
    const Status status = read.Continue(worker, kTicket, Well()).status();
    EXPECT_EQ(status.code(), StatusCode::kInternal) << i << ": " << status;
  }
}

TEST(LentMemory, WaitsForWhoeverStillHasIt) {
  const std::byte byte{};
  std::atomic<bool> returned{false};
  std::thread borrower;
  {
    const LentMemory lent;
    control::Frame frame = lent.Lend(&byte, 1);
    borrower = std::thread([&returned, frame = std::move(frame)]() mutable {
      std::this_thread::sleep_for(50ms);
      returned = true;
      frame = control::Frame();
    });
  }
  EXPECT_TRUE(returned);
  borrower.join();
}

}  // namespace
}  // namespace lockstep::client
