#include "services/controller/reports/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "runtime/base/version.h"
#include "tests/unit/services/controller/fakes.h"

namespace lockstep::controller {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Candidate AnyCandidate() {
  Candidate candidate;
  candidate.min_version = kOldestProtocolVersion;
  candidate.max_version = kProtocolVersion;
  return candidate;
}

ControllerOptions SmallWindow() {
  ControllerOptions options;
  options.flow_window_bytes = 4096;
  return options;
}

TEST(MetricsTest, WorkersAreCountedByState) {
  FakeClock clock;
  Metrics metrics(SmallWindow(), clock);
  Membership members("c", 3);
  SessionTable sessions(3);
  ASSERT_TRUE(members.Admit("a", AnyCandidate()).ok());
  metrics.Observe({members, sessions});
  EXPECT_THAT(metrics.Text(), AllOf(HasSubstr("# TYPE lockstep_workers gauge\n"),
                                    HasSubstr("lockstep_workers{state=\"missing\"} 2\n"),
                                    HasSubstr("lockstep_workers{state=\"waiting\"} 1\n"),
                                    HasSubstr("lockstep_workers{state=\"ready\"} 0\n")));
  EXPECT_EQ(metrics.Ready().code(), StatusCode::kUnavailable);

  ASSERT_TRUE(members.Admit("b", AnyCandidate()).ok());
  ASSERT_TRUE(members.Admit("c", AnyCandidate()).ok());
  members.WelcomeAll();
  for (Rank rank = 0; rank < 3; ++rank) members.MarkReady(rank, "shm");
  metrics.Observe({members, sessions});
  EXPECT_EQ(metrics.Ready(), OkStatus());
  EXPECT_THAT(metrics.Text(), AllOf(HasSubstr("lockstep_workers{state=\"missing\"} 0\n"),
                                    HasSubstr("lockstep_workers{state=\"ready\"} 3\n")));
  members.MarkLost(1, "killed", /*may_live=*/false);
  metrics.Observe({members, sessions});
  EXPECT_EQ(metrics.Ready(), members.Whole());
  EXPECT_THAT(metrics.Text(), HasSubstr("lockstep_workers{state=\"lost\"} 1\n"));
}

TEST(MetricsTest, WhatIsUnderWayIsSummedAndTheFullestSessionTold) {
  FakeClock clock;
  Metrics metrics(SmallWindow(), clock);
  Membership members("c", 2);
  SessionTable sessions(2);
  const FlowLimits limits{4096, 4096};
  CommandStream& one = sessions.Open("x", TimePoint()).commands;
  ASSERT_EQ(one.Admit(limits, 1, 1, 1000), OkStatus());
  one.Consume(0, 1000);
  one.Consume(1, 400);
  CommandStream& other = sessions.Open("y", TimePoint()).commands;
  ASSERT_EQ(other.Admit(limits, 1, 1, 3000), OkStatus());
  other.Consume(1, 3000);
  metrics.Observe({members, sessions});
  EXPECT_THAT(metrics.Text(), AllOf(HasSubstr("lockstep_sessions 2\n"),
                                    HasSubstr("lockstep_flow_window_bytes 4096\n"),
                                    HasSubstr("lockstep_flow_under_way_bytes 3600\n"),
                                    HasSubstr("lockstep_flow_under_way_max_bytes 3000\n")));
}

TEST(MetricsTest, HealthIsThatTheThreadComesRound) {
  FakeClock clock;
  Metrics metrics(SmallWindow(), clock);
  EXPECT_EQ(metrics.Healthy(), OkStatus());
  EXPECT_EQ(metrics.Ready().code(), StatusCode::kUnavailable) << "nothing is known yet";
  clock.now += std::chrono::seconds(11);
  EXPECT_EQ(metrics.Healthy().code(), StatusCode::kUnavailable);
  EXPECT_THAT(metrics.Text(),
              HasSubstr(std::string("lockstep_build_info{version=\"") + kBuildVersion + "\"} 1\n"));
}

}  // namespace
}  // namespace lockstep::controller
