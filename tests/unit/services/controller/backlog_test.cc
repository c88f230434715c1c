#include "services/controller/backlog.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::controller {
namespace {

control::Message Of(size_t size_bytes) {
  const std::string bytes(size_bytes, 'x');
  return {control::Frame::Copy(bytes.data(), bytes.size())};
}

constexpr size_t kMebibyte = size_t{1} << 20;

TEST(BacklogTest, WhoeverDoesNotReadMayAskNoMore) {
  Backlog backlog;
  std::vector<control::Message> unread;
  while (backlog.CheckRoom("silent").ok()) {
    unread.push_back(backlog.Charge("silent", Of(kMebibyte)));
    ASSERT_LE(unread.size(), 9u);
  }
  EXPECT_EQ(backlog.CheckRoom("silent").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(backlog.CheckRoom("another"), OkStatus());
  unread.pop_back();
  EXPECT_EQ(backlog.CheckRoom("silent"), OkStatus());
}

TEST(BacklogTest, FramesAreTheSameAndCountWhileACopyLives) {
  Backlog backlog;
  const control::Message message = Of(2 * Backlog::kMostOfOne);
  control::Message charged = backlog.Charge("a", message);
  ASSERT_EQ(charged.size(), 1u);
  EXPECT_EQ(charged[0].data(), message[0].data());
  EXPECT_EQ(charged[0].size(), message[0].size());
  control::Frame copy = charged[0];
  charged.clear();
  EXPECT_FALSE(backlog.CheckRoom("a").ok());
  copy = {};
  EXPECT_EQ(backlog.CheckRoom("a"), OkStatus());
}

TEST(BacklogTest, AllTogetherHaveALimit) {
  Backlog backlog;
  std::vector<control::Message> unread;
  const control::Message shared = Of(Backlog::kMostOfOne);
  while (unread.size() <= Backlog::kMostOfAll / Backlog::kMostOfOne) {
    unread.push_back(backlog.Charge("client " + std::to_string(unread.size()), shared));
  }
  EXPECT_EQ(backlog.CheckRoom("client 3").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(backlog.CheckRoom("one more"), OkStatus()) << "he has nothing to read";
  unread.resize(4);
  EXPECT_EQ(backlog.CheckRoom("client 3"), OkStatus());
}

TEST(BacklogTest, FramesMayOutliveIt) {
  control::Message unread;
  {
    Backlog backlog;
    for (int i = 0; i < 1000; ++i) (void)backlog.Charge(std::to_string(i), Of(5000));
    unread = backlog.Charge("last", Of(5000));
  }
  EXPECT_EQ(unread[0].size(), 5000u);
}

}  // namespace
}  // namespace lockstep::controller
