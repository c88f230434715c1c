#include "runtime/collective/message/message_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/collective/message/transport.h"

namespace lockstep::collective::message {
namespace {

using testing::HasSubstr;

Deadline Soon() { return Deadline::After(std::chrono::seconds(30)); }

// Rank 0 of two, the other of which does as this one does: what is sent comes back.
class Echo final : public Transport {
 public:
  explicit Echo(std::vector<std::string>* sent) : sent_(sent) {}

  std::string_view name() const override { return "echo"; }
  int rank() const override { return 0; }
  int size() const override { return 2; }
  Outcome Run(absl::Span<const Outgoing> outgoing, absl::Span<const Incoming> incoming,
              Deadline) override {
    if (cancelled_) return {.kind = Outcome::Kind::kAborted};
    for (const Outgoing& out : outgoing) {
      sent_->emplace_back(static_cast<const char*>(out.data), out.size_bytes);
      for (const Incoming& in : incoming) {
        if (in.tag == out.tag) std::memcpy(in.data, out.data, out.size_bytes);
        // A header begins with the operation.
        if (std::exchange(disagrees_, false)) *static_cast<uint8_t*>(in.data) ^= 1;
      }
    }
    return {};
  }
  // The other rank's next header is not as this one's.
  void Disagree() { disagrees_ = true; }
  void Cancel() override { cancelled_ = true; }
  void Leave(const Status&) override {}
  std::optional<Status> LeaveReasonOf(Rank) override { return std::nullopt; }
  StatusOr<std::unique_ptr<Transport>> Split(absl::Span<const Rank>, uint64_t,
                                             const std::atomic<bool>*, Deadline) override {
    return Unimplemented("an echo has no members to split");
  }

 private:
  std::vector<std::string>* const sent_;
  bool cancelled_ = false;
  bool disagrees_ = false;
};

class MessageCommunicatorTest : public testing::Test {
 protected:
  // Bytes that only the data of these tests has, in all that was sent since the last look.
  size_t TakeMarks() {
    size_t marks = 0;
    for (const std::string& message : sent_) {
      marks += static_cast<size_t>(std::count(message.begin(), message.end(), kMark));
    }
    sent_.clear();
    return marks;
  }

  static constexpr char kMark = '\x5a';
  std::vector<std::string> sent_;
  Echo* const transport_ = new Echo(&sent_);  // the communicator's
  MessageCommunicator comm_{std::unique_ptr<Transport>(transport_), {0, 1}};
};

TEST_F(MessageCommunicatorTest, NothingOfAnEarlierOperationIsSentAgain) {
  std::vector<char> data(1000, kMark);
  const Buffer all{data.data(), data.size(), DType::kInt8};
  ASSERT_TRUE(comm_.Broadcast(all, all, 0, Soon()).ok());
  EXPECT_EQ(TakeMarks(), 1000u);
  const Buffer some{data.data(), 10, DType::kInt8};
  ASSERT_TRUE(comm_.Broadcast(some, some, 0, Soon()).ok());
  EXPECT_EQ(TakeMarks(), 10u);
  ASSERT_TRUE(comm_.Barrier(Soon()).ok());
  EXPECT_EQ(TakeMarks(), 0u);
}

// The header of a message lies on the stack.
TEST_F(MessageCommunicatorTest, NothingOfTheStackIsSent) {
  std::vector<char> data(1000, kMark);
  std::vector<char> received(data.size());
  const auto exchange = [&](size_t count) {
    return comm_.SendRecv({data.data(), count, DType::kInt8}, 1,
                          {received.data(), count, DType::kInt8}, 1, Soon());
  };
  ASSERT_TRUE(exchange(1000).ok());
  EXPECT_EQ(TakeMarks(), 1000u);
  ASSERT_TRUE(exchange(10).ok());
  EXPECT_EQ(TakeMarks(), 10u);
}

TEST_F(MessageCommunicatorTest, OfALongNameEachRankTellsTheBeginning) {
  comm_.ReportAs(std::string(2000, 'n'));
  transport_->Disagree();
  const Status status = comm_.Barrier(Soon());
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  const std::string text(Message(status));
  EXPECT_LE(std::count(text.begin(), text.end(), 'n'), 2 * 1024);
  EXPECT_THAT(text, HasSubstr(std::string(900, 'n')));
}

TEST_F(MessageCommunicatorTest, WhoSharesItsConnectionsIsAbortedWithTheSameCause) {
  const auto some = comm_.Among({0, 1});
  comm_.Abort(Internal("the disk is on fire"));
  const Status status = some->Barrier(Soon());
  EXPECT_EQ(status.code(), StatusCode::kAborted);
  EXPECT_THAT(Message(status), HasSubstr("the disk is on fire"));
  some->Abort(Internal("a later cause"));
  EXPECT_EQ(comm_.Barrier(Soon()), status);
}

TEST_F(MessageCommunicatorTest, ACancelledTransportIsToldOfWhereNobodyGaveACause) {
  transport_->Cancel();
  const Status status = comm_.Barrier(Soon());
  EXPECT_EQ(status.code(), StatusCode::kAborted);
  EXPECT_THAT(Message(status), HasSubstr("echo was cancelled during barrier"));
}

}  // namespace
}  // namespace lockstep::collective::message
