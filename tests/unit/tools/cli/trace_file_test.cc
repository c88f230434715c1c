#include "tools/cli/trace_file.h"

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

TEST(TraceFileTest, AWholeTraceIsOneLine) {
  Trace trace;
  for (Rank rank : {0, 1}) {
    TraceProcess& process = trace.processes.emplace_back();
    process.rank = rank;
    process.clock_uncertainty = std::chrono::nanoseconds(11'001);
    process.threads.push_back({"executing", 0, std::vector<trace::Event>(700)});
  }
  EXPECT_EQ(DescribeTrace(trace, "x.json"), "x.json: 1,400 events of 2 ranks, clocks within 12 us");
}

TEST(TraceFileTest, WhatIsNotInItIsTold) {
  Trace trace;
  TraceProcess& lossy = trace.processes.emplace_back();
  lossy.rank = 0;
  lossy.threads.push_back({"executing", 30, {}});
  lossy.threads.push_back({"bulk", 12, {}});
  TraceProcess& gone = trace.processes.emplace_back();
  gone.rank = 1;
  gone.missing = "its worker is lost: killed";
  TraceProcess& apart = trace.processes.emplace_back();
  apart.role = TraceProcess::Role::kClient;
  apart.clock_is_known = false;
  EXPECT_EQ(DescribeTrace(trace, "x.json"),
            "x.json: 0 events of 2 ranks, clocks within 0 us\n"
            "lost      rank 0: the oldest 42 events; more are kept with --events\n"
            "missing   rank 1: its worker is lost: killed\n"
            "clock     client: could not be compared with the controller's; its times may mean "
            "anything");
}

}  // namespace
}  // namespace lockstep::cli
