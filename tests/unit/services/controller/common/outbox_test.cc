#include "services/controller/common/outbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
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
  outbox.ToAllWorkers(workers, {FrameOf("2"), FrameOf("body")},
                      {7, SessionId(1), 1, 4, TimePoint()});
  outbox.ToWorker("w", FrameOf("3"));
  ASSERT_THAT(outbox.items(), SizeIs(3));
  EXPECT_EQ(outbox.items()[0].to, Outbox::Item::To::kClient);
  EXPECT_EQ(outbox.items()[0].peer, "c");
  EXPECT_EQ(outbox.items()[1].to, Outbox::Item::To::kAllWorkers);
  EXPECT_EQ(outbox.items()[1].batch.number, 7u);
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

TEST(OutboxTest, NamesAreWrittenWhereEarlierOnesWere) {
  Outbox outbox;
  outbox.ToClient("a client with a long name", {FrameOf("1"), FrameOf("body")});
  const char* const memory = outbox.items()[0].peer.data();
  outbox.Clear();
  outbox.ToWorker("a worker with a name", FrameOf("2"));
  EXPECT_EQ(outbox.items()[0].peer, "a worker with a name");
  EXPECT_EQ(outbox.items()[0].message.size(), 1u);
  EXPECT_EQ(outbox.items()[0].peer.data(), memory);
}

TEST(OutboxTest, FramesAreLetGoWhenTheyAreSent) {
  Outbox outbox;
  auto owner = std::make_shared<const int>(7);
  outbox.ToClient("c", {control::Frame(owner, owner.get(), sizeof(int))});
  EXPECT_EQ(owner.use_count(), 2);
  outbox.Clear();
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(OutboxTest, WhatIsHeldIsBounded) {
  Outbox outbox;
  size_t sent = 0;
  size_t most = 0;
  outbox.SendWhenFull([&] {
    sent += outbox.items().size();
    most = std::max(most, outbox.items().size());
    outbox.Clear();
  });
  for (size_t i = 0; i < 10 * Outbox::kMostItems; ++i) outbox.ToWorker("w", FrameOf("welcome"));
  EXPECT_EQ(sent + outbox.items().size(), 10 * Outbox::kMostItems);
  EXPECT_EQ(most, Outbox::kMostItems);
  outbox.Clear();
  sent = 0;
  outbox.ToWorker("w", FrameOf(std::string(Outbox::kMostBytes / 2, 'a')));
  EXPECT_EQ(sent, 0u);
  outbox.ToWorker("w", FrameOf(std::string(Outbox::kMostBytes / 2, 'b')));
  EXPECT_EQ(sent, 2u);
  EXPECT_THAT(outbox.items(), IsEmpty());
}

}  // namespace
}  // namespace lockstep::controller
