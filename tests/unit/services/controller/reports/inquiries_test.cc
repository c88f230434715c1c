#include "services/controller/reports/inquiries.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::controller {
namespace {

using namespace std::chrono_literals;

class InquiriesTest : public testing::Test {
 protected:
  static control::Frame Report(const char* text) { return control::Frame::Copy(text, 1); }

  std::vector<Inquiry> done_;
  Inquiries inquiries_{[this](const Inquiry& inquiry) { done_.push_back(inquiry); }};
};

TEST_F(InquiriesTest, EndsWhenAllHaveReported) {
  const uint64_t probe = inquiries_.Begin({"client", 5}, {true, false, true}, Deadline::After(1h));
  inquiries_.Add(probe, 2, Report("c"));
  inquiries_.Add(probe + 1, 0, Report("x"));  // it was not asked for
  EXPECT_TRUE(done_.empty());
  inquiries_.Add(probe, 0, Report("a"));
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_EQ(done_[0].client, "client");
  EXPECT_EQ(done_[0].request, 5u);
  EXPECT_EQ(done_[0].reports[0].size(), 1u);
  EXPECT_EQ(done_[0].reports[1].size(), 0u);
  inquiries_.Add(probe, 0, Report("a"));
  EXPECT_EQ(done_.size(), 1u) << "once";
}

TEST_F(InquiriesTest, EndsAtItsDeadlineWithWhatThereIs) {
  const auto now = Deadline::Clock::now();
  const uint64_t probe = inquiries_.Begin({"client", 5}, {true, true}, Deadline::At(now + 10s));
  inquiries_.Add(probe, 1, Report("b"));
  EXPECT_EQ(inquiries_.Expire(now).when(), now + 10s);
  EXPECT_TRUE(done_.empty());
  inquiries_.Expire(now + 10s);
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_EQ(done_[0].reports[0].size(), 0u);
  EXPECT_EQ(done_[0].reports[1].size(), 1u);
}

TEST_F(InquiriesTest, SeveralMayAskAtOnce) {
  const uint64_t first = inquiries_.Begin({"a", 1}, {true}, Deadline::After(1h));
  const uint64_t second = inquiries_.Begin({"b", 1}, {true}, Deadline::After(1h));
  EXPECT_NE(first, second);
  inquiries_.Add(second, 0, Report("x"));
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_EQ(done_[0].client, "b");
}

TEST_F(InquiriesTest, AClientWaitsForOneAnswerAtATime) {
  EXPECT_EQ(inquiries_.CheckRoom("a"), OkStatus());
  const uint64_t first = inquiries_.Begin({"a", 1}, {true}, Deadline::After(1h));
  EXPECT_EQ(inquiries_.CheckRoom("a").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(inquiries_.CheckRoom("b"), OkStatus());
  inquiries_.Add(first, 0, Report("x"));
  EXPECT_EQ(inquiries_.CheckRoom("a"), OkStatus());
}

TEST_F(InquiriesTest, ManyClientsTogetherWaitTheirTurn) {
  for (size_t i = 0; i < Inquiries::kMostAtOnce; ++i) {
    ASSERT_EQ(inquiries_.CheckRoom("new"), OkStatus());
    inquiries_.Begin({std::to_string(i), 1}, {true}, Deadline::After(1h));
  }
  EXPECT_EQ(inquiries_.CheckRoom("new").code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace lockstep::controller
