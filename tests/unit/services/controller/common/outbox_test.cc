#include "services/controller/common/outbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace lockstep::controller {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

control::Frame FrameOf(const std::string& text) {
  return control::Frame::Copy(text.data(), text.size());
}

TEST(OutboxTest, KeepsTheOrderOverAllReceivers) {
  Outbox outbox;
  const auto workers =
      std::make_shared<const std::vector<control::PeerName>>(std::vector<std::string>{"w"});
  outbox.ToClient("c", {FrameOf("1")});
  outbox.ToAllWorkers(workers, {FrameOf("2"), FrameOf("body")}, 7);
  outbox.ToWorker("w", FrameOf("3"));
  ASSERT_THAT(outbox.items(), SizeIs(3));
  EXPECT_EQ(outbox.items()[0].to, Outbox::Item::To::kClient);
  EXPECT_EQ(outbox.items()[0].peer, "c");
  EXPECT_EQ(outbox.items()[1].to, Outbox::Item::To::kAllWorkers);
  EXPECT_EQ(outbox.items()[1].batch, 7u);
  EXPECT_THAT(*outbox.items()[1].workers, ElementsAre("w"));
  EXPECT_EQ(outbox.items()[2].to, Outbox::Item::To::kWorker);
}

TEST(OutboxTest, NothingIsSentToASessionThatHasNoClient) {
  Outbox outbox;
  outbox.ToClient("", {FrameOf("1")});
  EXPECT_THAT(outbox.items(), IsEmpty());
}

TEST(OutboxTest, FramesAreSharedAndItsMemoryIsUsedAgain) {
  Outbox outbox;
  const control::Frame body = FrameOf("body");
  outbox.ToClient("c", {body});
  EXPECT_EQ(outbox.items()[0].message[0].data(), body.data());
  const Outbox::Item* const memory = outbox.items().data();
  outbox.Clear();
  EXPECT_THAT(outbox.items(), IsEmpty());
  outbox.ToClient("c", {body});
  EXPECT_EQ(outbox.items().data(), memory);
}

}  // namespace
}  // namespace lockstep::controller
