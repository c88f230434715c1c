#include "runtime/trace/events_codec.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::trace {
namespace {

TEST(EventsCodecTest, EventsArriveAsTheyWereSent) {
  Events sent;
  sent.rank = 3;
  sent.host_name = "node7";
  sent.host_id = "boot/1";
  sent.pid = 4711;
  sent.clocks = {{10, -20, 30}, {40, 50, 60}};
  sent.threads = 2;
  sent.thread = 1;
  sent.thread_name = "bulk";
  sent.lost = 9;
  sent.next = 77;
  Event collective;
  collective.begin = -5;
  collective.end = 1000;
  collective.command = 17;
  collective.bytes = 1 << 20;
  collective.session = 2;
  collective.commands = 4;
  collective.step = 70'000;
  collective.first = 6;
  collective.ranks = 8;
  collective.kind = Kind::kCollective;
  collective.code = 13;
  collective.unfinished = true;
  collective.SetName("allreduce");
  collective.SetBackend("shm+gloo");
  sent.events = {collective, Event(), collective};

  const auto got = DecodeEvents(EncodeEvents(sent));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->rank, 3);
  EXPECT_EQ(got->host_name, "node7");
  EXPECT_EQ(got->host_id, "boot/1");
  EXPECT_EQ(got->pid, 4711);
  EXPECT_EQ(got->clocks, sent.clocks);
  EXPECT_EQ(got->threads, 2);
  EXPECT_EQ(got->thread, 1);
  EXPECT_EQ(got->thread_name, "bulk");
  EXPECT_EQ(got->lost, 9u);
  EXPECT_EQ(got->next, 77u);
  ASSERT_EQ(got->events.size(), 3u);
  for (const size_t i : {0, 2}) {
    const Event& event = got->events[i];
    EXPECT_EQ(event.begin, -5);
    EXPECT_EQ(event.end, 1000);
    EXPECT_EQ(event.command, 17u);
    EXPECT_EQ(event.bytes, uint64_t{1} << 20);
    EXPECT_EQ(event.session, 2u);
    EXPECT_EQ(event.commands, 4u);
    EXPECT_EQ(event.step, 70'000u);
    EXPECT_EQ(event.first, 6);
    EXPECT_EQ(event.ranks, 8);
    EXPECT_EQ(event.kind, Kind::kCollective);
    EXPECT_EQ(event.code, 13);
    EXPECT_TRUE(event.unfinished);
    EXPECT_STREQ(event.name, "allreduce");
    EXPECT_STREQ(event.backend, "shm+gloo");
  }
  EXPECT_STREQ(got->events[1].name, "");
}

TEST(EventsCodecTest, AFullMessageIsSmallEnoughForTheLivenessSocket) {
  Events sent;
  sent.events.resize(kEventsPerMessage);
  for (size_t i = 0; i < sent.events.size(); ++i) {
    // Each with a name of its own, as long as can be.
    std::string name = std::to_string(i);
    name.resize(Event::kMaxNameBytes, 'x');
    sent.events[i].SetName(name);
  }
  EXPECT_LT(EncodeEvents(sent).size(), size_t{1} << 20);
}

TEST(EventsCodecTest, WhatIsNoMessageIsRefused) {
  EXPECT_EQ(DecodeEvents(control::Frame::Copy("abc", 3)).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(DecodeEvents(control::Frame()).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::trace
