#include "services/controller/reports/unread_answers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::controller {
namespace {

control::Message MessageOf(size_t size_bytes) {
  const std::string bytes(size_bytes, 'x');
  return {control::Frame::Copy(bytes.data(), bytes.size())};
}

constexpr size_t kMebibyte = size_t{1} << 20;

TEST(UnreadAnswersTest, WhoeverDoesNotReadMayAskNoMore) {
  UnreadAnswers unread_answers;
  std::vector<control::Message> unread;
  while (unread_answers.CheckRoom("silent").ok()) {
    unread.push_back(unread_answers.Charge("silent", MessageOf(kMebibyte)));
    ASSERT_LE(unread.size(), 9u);
  }
  EXPECT_EQ(unread_answers.CheckRoom("silent").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(unread_answers.CheckRoom("another"), OkStatus());
  unread.pop_back();
  EXPECT_EQ(unread_answers.CheckRoom("silent"), OkStatus());
}

TEST(UnreadAnswersTest, FramesAreTheSameAndCountWhileACopyLives) {
  UnreadAnswers unread_answers;
  const control::Message message = MessageOf(2 * UnreadAnswers::kMostOfOne);
  control::Message charged = unread_answers.Charge("a", message);
  ASSERT_EQ(charged.size(), 1u);
  EXPECT_EQ(charged[0].data(), message[0].data());
  EXPECT_EQ(charged[0].size(), message[0].size());
  control::Frame copy = charged[0];
  charged.clear();
  EXPECT_FALSE(unread_answers.CheckRoom("a").ok());
  copy = {};
  EXPECT_EQ(unread_answers.CheckRoom("a"), OkStatus());
}

TEST(UnreadAnswersTest, AllTogetherHaveALimit) {
  UnreadAnswers unread_answers;
  std::vector<control::Message> unread;
  const control::Message shared = MessageOf(UnreadAnswers::kMostOfOne);
  while (unread.size() <= UnreadAnswers::kMostOfAll / UnreadAnswers::kMostOfOne) {
    unread.push_back(unread_answers.Charge("client " + std::to_string(unread.size()), shared));
  }
  EXPECT_EQ(unread_answers.CheckRoom("client 3").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(unread_answers.CheckRoom("one more"), OkStatus()) << "it has nothing to read";
  unread.resize(4);
  EXPECT_EQ(unread_answers.CheckRoom("client 3"), OkStatus());
}

TEST(UnreadAnswersTest, FramesMayOutliveIt) {
  control::Message unread;
  {
    UnreadAnswers unread_answers;
    for (int i = 0; i < 1000; ++i) (void)unread_answers.Charge(std::to_string(i), MessageOf(5000));
    unread = unread_answers.Charge("last", MessageOf(5000));
  }
  EXPECT_EQ(unread[0].size(), 5000u);
}

}  // namespace
}  // namespace lockstep::controller
