#include "services/controller/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "runtime/base/version.h"

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
  Metrics metrics(SmallWindow());
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
  members.MarkLost(1, "killed");
  metrics.Observe({members, sessions});
  EXPECT_EQ(metrics.Ready(), members.Whole());
  EXPECT_THAT(metrics.Text(), HasSubstr("lockstep_workers{state=\"lost\"} 1\n"));
}

TEST(MetricsTest, WhatIsUnderWayIsSummedAndTheFullestSessionTold) {
  Metrics metrics(SmallWindow());
  Membership members("c", 2);
  SessionTable sessions(2);
  SessionEntry& one = sessions.Open("x");
  one.sent_bytes = 1000;
  one.consumed = {1000, 400};
  SessionEntry& other = sessions.Open("y");
  other.sent_bytes = 3000;
  other.consumed = {0, 3000};
  metrics.Observe({members, sessions});
  EXPECT_THAT(metrics.Text(), AllOf(HasSubstr("lockstep_sessions 2\n"),
                                    HasSubstr("lockstep_flow_window_bytes 4096\n"),
                                    HasSubstr("lockstep_flow_under_way_bytes 3600\n"),
                                    HasSubstr("lockstep_flow_under_way_max_bytes 3000\n")));
}

TEST(MetricsTest, HealthIsThatTheThreadComesRound) {
  Metrics metrics(SmallWindow());
  EXPECT_EQ(metrics.Healthy(), OkStatus());
  EXPECT_EQ(metrics.Ready().code(), StatusCode::kUnavailable) << "nothing is known yet";
  EXPECT_THAT(metrics.Text(),
              HasSubstr(std::string("lockstep_build_info{version=\"") + kBuildVersion + "\"} 1\n"));
}

}  // namespace
}  // namespace lockstep::controller
