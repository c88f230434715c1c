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

// Names are not used again, so a controller that remembered them all would grow for ever.
TEST(UnreadAnswersTest, ClientsThatHaveReadAllAreForgotten) {
  UnreadAnswers unread_answers;
  const control::Message shared = MessageOf(UnreadAnswers::kMostOfOne + 1);
  std::vector<control::Message> unread;
  for (int i = 0; i < 1000; ++i) {
    const control::Message read = unread_answers.Charge("reads " + std::to_string(i), shared);
    if (i % 100 == 0) unread.push_back(unread_answers.Charge(std::to_string(i), shared));
  }
  EXPECT_LE(unread_answers.clients(), 64u);
  for (int i = 0; i < 1000; i += 100) {
    EXPECT_FALSE(unread_answers.CheckRoom(std::to_string(i)).ok()) << "it has not read: " << i;
  }
}

// What is still unread is looked through again only when there is twice as much of it.
TEST(UnreadAnswersTest, ManyThatDoNotReadAreAllRemembered) {
  UnreadAnswers unread_answers;
  const control::Message message = MessageOf(1);
  std::vector<control::Message> unread;
  for (int i = 0; i < 200; ++i) {
    unread.push_back(unread_answers.Charge(std::to_string(i), message));
  }
  EXPECT_EQ(unread_answers.clients(), 200u);
  unread.clear();
  for (int i = 0; i < 200; ++i) unread_answers.Charge("reads " + std::to_string(i), message);
  EXPECT_LT(unread_answers.clients(), 260u);
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
