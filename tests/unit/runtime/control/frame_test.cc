#include "runtime/control/channel.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

namespace lockstep::control {
namespace {

std::string Text(const Frame& frame) {
  return std::string(reinterpret_cast<const char*>(frame.data()), frame.size());
}

TEST(FrameTest, DefaultIsEmpty) {
  const Frame frame;
  EXPECT_EQ(frame.size(), 0u);
  EXPECT_EQ(frame.data(), nullptr);
}

TEST(FrameTest, CopyIsIndependentOfItsSource) {
  std::string source = "thirteen byte";
  const Frame frame = Frame::Copy(source.data(), source.size());
  source.assign(source.size(), 'x');
  EXPECT_EQ(Text(frame), "thirteen byte");
}

TEST(FrameTest, CopyIsAlignedForWords) {
  const std::string source = "?abcdefgh";
  const Frame frame = Frame::Copy(source.data() + 1, 8);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(frame.data()) % alignof(uint64_t), 0u);
}

TEST(FrameTest, CopyOfNothingIsEmpty) { EXPECT_EQ(Frame::Copy(nullptr, 0).size(), 0u); }

TEST(FrameTest, CopiesShareBytesAndTheLastOneFreesThem) {
  auto bytes = std::make_shared<std::string>("shared");
  const std::weak_ptr<std::string> alive = bytes;
  const void* data = bytes->data();
  const size_t size = bytes->size();
  auto first = std::make_unique<Frame>(std::move(bytes), data, size);
  auto second = std::make_unique<Frame>(*first);
  EXPECT_EQ(second->data(), first->data());
  first.reset();
  EXPECT_FALSE(alive.expired());
  EXPECT_EQ(Text(*second), "shared");
  second.reset();
  EXPECT_TRUE(alive.expired());
}

}  // namespace
}  // namespace lockstep::control
