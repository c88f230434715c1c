#include "runtime/client/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

using trace::Event;
using trace::Kind;

Event Collective(int64_t begin, int64_t end, uint64_t command, const char* name = "allreduce") {
  Event event;
  event.begin = begin;
  event.end = end;
  event.command = command;
  event.session = 1;
  event.kind = Kind::kCollective;
  event.ranks = 2;
  event.SetName(name);
  return event;
}

// Two ranks.
Trace Two(const Event& on_rank_0, const Event& on_rank_1) {
  Trace trace;
  for (const Event& event : {on_rank_0, on_rank_1}) {
    TraceProcess& process = trace.processes.emplace_back();
    process.rank = static_cast<Rank>(trace.processes.size()) - 1;
    process.threads.push_back({"executing", 0, {event}});
  }
  return trace;
}

TEST(TraceTest, WhoComesEarlyWaitsForTheLast) {
  const std::vector<PeerWait> waits =
      FindPeerWaits(Two(Collective(100, 510, 7), Collective(400, 505, 7)));
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].process, 0u);
  EXPECT_EQ(waits[0].begin, 100);
  EXPECT_EQ(waits[0].end, 400);
  EXPECT_EQ(waits[0].last, 1);
}

TEST(TraceTest, WaitsThatTheClocksAreNotSureOfAreNotTold) {
  Trace trace = Two(Collective(100, 510, 7), Collective(400, 505, 7));
  trace.processes[0].clock_uncertainty = std::chrono::nanoseconds(200);
  EXPECT_EQ(FindPeerWaits(trace).size(), 1u);
  trace.processes[1].clock_uncertainty = std::chrono::nanoseconds(100);
  EXPECT_TRUE(FindPeerWaits(trace).empty());
}

TEST(TraceTest, AWaitEndsWithItsCollective) {
  // The clocks say that rank 0 left before rank 1 came.
  const std::vector<PeerWait> waits =
      FindPeerWaits(Two(Collective(100, 390, 7), Collective(400, 505, 7)));
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].end, 390);
}

TEST(TraceTest, NobodyIsSaidToWaitWhereThatIsNotKnown) {
  const auto none = [](const Trace& trace) { return FindPeerWaits(trace).empty(); };
  EXPECT_TRUE(none(Two(Collective(100, 500, 7), Collective(400, 505, 8)))) << "another one";
  EXPECT_TRUE(none(Two(Collective(100, 500, 7, "broadcast"), Collective(400, 505, 7, "broadcast"))))
      << "whose members leave when they have what they need";
  Event of_three = Collective(100, 500, 7);
  of_three.ranks = 3;
  EXPECT_TRUE(none(Two(of_three, Collective(400, 505, 7)))) << "the third may be the last";
  Event unfinished = Collective(100, 500, 7);
  unfinished.unfinished = true;
  EXPECT_TRUE(none(Two(unfinished, Collective(400, 505, 7))));
}

TEST(TraceTest, KeepingASessionDropsOthersAndWhatIsOfNoneStays) {
  Event other = Collective(1, 2, 3);
  other.session = 2;
  Event wait;
  wait.kind = Kind::kWait;
  Trace trace = Two(other, Collective(1, 2, 3));
  trace.processes[0].threads[0].events.push_back(wait);
  trace.KeepSession(SessionId(1));
  ASSERT_EQ(trace.processes[0].threads[0].events.size(), 1u);
  EXPECT_EQ(trace.processes[0].threads[0].events[0].kind, Kind::kWait);
  EXPECT_EQ(trace.NumEvents(), 2u);
}

}  // namespace
}  // namespace lockstep
