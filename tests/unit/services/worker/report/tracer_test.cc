#include "services/worker/report/tracer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "schemas/membership.capnp.h"

namespace lockstep::worker {
namespace {

using namespace std::chrono_literals;
using Order = wire::TraceOrder::Builder;

constexpr uint64_t kTrace = 99;

class TracerTest : public testing::Test {
 protected:
  TracerTest() { tracer_.SetController({2, Epoch(7), 8}); }

  template <typename Fill>
  std::vector<control::Message> Say(Fill&& fill, uint64_t trace = kTrace) {
    std::vector<control::Message> answers;
    const control::Frame frame = control::EncodeMessage<wire::TraceOrder>([&](Order order) {
      order.setTrace(trace);
      fill(order);
    });
    const Status read = control::DecodeMessage<wire::TraceOrder>(frame, [&](auto order) {
      answers = tracer_.Take(order, activity_);
      return OkStatus();
    });
    EXPECT_EQ(read, OkStatus());
    return answers;
  }
  // Answers questions about the time until there are none: the controller is an hour ahead.
  std::vector<control::Message> TellTime(std::vector<control::Message> messages) {
    std::vector<control::Message> others;
    while (!messages.empty()) {
      const control::Message message = messages.back();
      messages.pop_back();
      std::optional<int64_t> asked;
      (void)control::DecodeMessage<wire::LivenessMessage>(message[0], [&](auto reader) {
        if (reader.getTrace().isClock()) asked = reader.getTrace().getClock().getAsked();
        return OkStatus();
      });
      if (!asked.has_value()) {
        others.push_back(message);
        continue;
      }
      ++questions_;
      for (control::Message& next : Say([&](Order order) {
             auto clock = order.initClock();
             clock.setAsked(*asked);
             clock.setReceived(trace::Now() + kAhead);
             clock.setAnswered(trace::Now() + kAhead);
           })) {
        messages.push_back(std::move(next));
      }
    }
    return others;
  }
  void Start(uint32_t events) {
    EXPECT_TRUE(TellTime(Say([&](Order order) { order.setStart(events); })).empty());
  }
  void Stop() {
    EXPECT_TRUE(TellTime(Say([](Order order) { order.setStop(); })).empty());
  }
  std::vector<control::Message> Ask(uint16_t thread, uint64_t from, uint64_t trace = kTrace) {
    return Say(
        [&](Order order) {
          order.setRequest(5);
          auto fetch = order.initFetch();
          fetch.setThread(thread);
          fetch.setFrom(from);
        },
        trace);
  }
  trace::Events Fetch(uint16_t thread, uint64_t from = 0) {
    const std::vector<control::Message> answers = Ask(thread, from);
    if (answers.size() != 1 || answers[0].size() != 2) {
      ADD_FAILURE() << "no events";
      return {};
    }
    return *trace::DecodeEvents(answers[0][1]);
  }
  static std::string ProblemOf(const control::Message& answer) {
    std::string problem;
    (void)control::DecodeMessage<wire::LivenessMessage>(answer[0], [&](auto reader) {
      EXPECT_EQ(reader.getTrace().getRank(), 2);
      EXPECT_EQ(reader.getTrace().getWatch(), 8u);
      EXPECT_EQ(reader.getTrace().getRequest(), 5u);
      problem = control::ToString(reader.getTrace().getFetched());
      return OkStatus();
    });
    return problem;
  }
  void Add(trace::Ring& ring, uint64_t command) {
    trace::Event event;
    event.begin = trace::Now();
    event.end = trace::Now();
    event.command = command;
    ring.Add(event);
  }

  static constexpr int64_t kAhead = int64_t{3600} * 1'000'000'000;
  trace::Ring executing_;
  trace::Ring bulk_;
  Tracer tracer_{executing_, bulk_, 0ns};
  WorkerActivity activity_;
  int questions_ = 0;
};

TEST_F(TracerTest, TellsWhatWasRecordedBetweenStartAndStop) {
  Add(executing_, 1);
  Start(10);
  Add(executing_, 2);
  Add(bulk_, 3);
  EXPECT_TRUE(Fetch(0).events.empty()) << "not while it goes on";
  Stop();
  Add(executing_, 4);
  const trace::Events executing = Fetch(0);
  EXPECT_EQ(executing.rank, 2);
  EXPECT_EQ(executing.threads, 2);
  EXPECT_EQ(executing.thread_name, "executing");
  ASSERT_EQ(executing.events.size(), 2u);
  EXPECT_EQ(executing.events[0].command, 2u);
  EXPECT_STREQ(executing.events[1].name, "wait for commands");
  EXPECT_TRUE(executing.events[1].unfinished);
  const trace::Events bulk = Fetch(1);
  EXPECT_EQ(bulk.thread_name, "bulk");
  ASSERT_EQ(bulk.events.size(), 1u);
  EXPECT_EQ(bulk.events[0].command, 3u);
}

TEST_F(TracerTest, ComparesClocksWhenItBeginsAndWhenItEnds) {
  Start(10);
  EXPECT_EQ(questions_, Tracer::kRoundTrips);
  Stop();
  EXPECT_EQ(questions_, 2 * Tracer::kRoundTrips);
  const std::vector<trace::ClockSample> clocks = Fetch(0).clocks;
  ASSERT_EQ(clocks.size(), 2u);
  for (const trace::ClockSample& clock : clocks) {
    EXPECT_NEAR(static_cast<double>(clock.offset), static_cast<double>(kAhead), 1e9);
    EXPECT_LE(std::abs(clock.offset - kAhead), clock.uncertainty);
  }
  EXPECT_LT(clocks[0].at, clocks[1].at);
}

TEST_F(TracerTest, AnswersThatNeedTheClockWaitForItButNotForEver) {
  (void)Say([](Order order) { order.setStart(10); });  // and the time is not told
  EXPECT_TRUE(Ask(0, 0).empty());
  const Deadline patience = Deadline::After(20s);
  std::vector<control::Message> late;
  while (late.empty() && !patience.Expired()) {
    late = tracer_.Look();
    std::this_thread::yield();
  }
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(ProblemOf(late[0]), "");
  EXPECT_TRUE(trace::DecodeEvents(late[0][1])->clocks.empty());
}

TEST_F(TracerTest, WhatIsUnderWayAtTheEndIsTold) {
  Start(10);
  activity_.kind = WorkerActivity::Kind::kCommand;
  activity_.session = SessionId(3);
  activity_.command = 12;
  activity_.what = "stuck_kernel";
  activity_.since = 2s;
  Stop();
  const trace::Events events = Fetch(0);
  ASSERT_EQ(events.events.size(), 1u);
  const trace::Event& event = events.events[0];
  EXPECT_STREQ(event.name, "stuck_kernel");
  EXPECT_TRUE(event.unfinished);
  EXPECT_EQ(event.session, 3u);
  EXPECT_EQ(event.command, 12u);
  EXPECT_EQ(event.end - event.begin, 2'001'000'000);
}

TEST_F(TracerTest, WhatIsRecordedIsNotUnderWay) {
  Start(10);
  Add(executing_, 12);
  activity_.kind = WorkerActivity::Kind::kCommand;
  activity_.command = 12;
  activity_.what = "it failed a moment ago";
  Stop();
  const trace::Events events = Fetch(0);
  ASSERT_EQ(events.events.size(), 2u);
  EXPECT_EQ(events.events[0].command, 12u);
  EXPECT_STREQ(events.events[1].name, "wait for commands");
}

TEST_F(TracerTest, ManyEventsTravelInPieces) {
  constexpr size_t kMany = 2 * trace::kEventsPerMessage + 5;
  Start(static_cast<uint32_t>(kMany));
  for (uint64_t i = 0; i < kMany + 3; ++i) Add(executing_, i);
  Stop();
  std::vector<uint64_t> commands;
  uint64_t from = 0;
  do {
    const trace::Events part = Fetch(0, from);
    EXPECT_EQ(part.lost, 3u);
    EXPECT_LE(part.events.size(), trace::kEventsPerMessage);
    for (const trace::Event& event : part.events) commands.push_back(event.command);
    from = part.next;
  } while (from != 0);
  ASSERT_EQ(commands.size(), kMany + 1) << "and the wait at the end";
  for (size_t i = 0; i < kMany; ++i) ASSERT_EQ(commands[i], i + 3);
  EXPECT_TRUE(Fetch(0, ~uint64_t{0}).events.empty());
}

TEST_F(TracerTest, OtherTracesAndThreadsHaveNothing) {
  const std::vector<control::Message> before = Ask(0, 0);
  ASSERT_EQ(before.size(), 1u);
  EXPECT_EQ(ProblemOf(before[0]), "its worker has joined after the trace began");
  EXPECT_EQ(before[0].size(), 1u);
  Start(10);
  EXPECT_NE(ProblemOf(Ask(0, 0, kTrace + 1)[0]), "");
  EXPECT_NE(ProblemOf(Ask(2, 0)[0]), "");
  (void)Say([](Order order) { order.setStop(); }, kTrace + 1);
  EXPECT_TRUE(executing_.is_on());
  (void)Say([](Order order) { order.setEnd(); });
  EXPECT_FALSE(executing_.is_on());
  EXPECT_NE(ProblemOf(Ask(0, 0)[0]), "");
}

TEST_F(TracerTest, NoMoreMemoryIsTakenThanIsAllowed) {
  Start(~uint32_t{0});
  for (uint64_t i = 0; i <= wire::MOST_TRACE_EVENTS; ++i) Add(bulk_, i);
  Stop();
  EXPECT_EQ(Fetch(1).lost, 1u);
}

TEST_F(TracerTest, AnotherControllersWorkerStartsWithNothing) {
  Start(10);
  tracer_.SetController({2, Epoch(9), 8});
  EXPECT_FALSE(executing_.is_on());
  EXPECT_FALSE(bulk_.is_on());
}

}  // namespace
}  // namespace lockstep::worker
