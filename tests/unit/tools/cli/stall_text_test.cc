#include "tools/cli/stall_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// Rank 1 sleeps, rank 0 waits for it.
ClusterStatus Stuck() {
  ClusterStatus status;
  for (Rank rank = 0; rank < 2; ++rank) {
    WorkerStatus worker;
    worker.rank = rank;
    worker.state = WorkerState::kReady;
    worker.host = "box";
    worker.pid = 100 + rank;
    worker.reported = true;
    worker.activity.session = SessionId(3);
    status.workers.push_back(worker);
  }
  WorkerActivity& waiting = status.workers[0].activity;
  waiting.kind = WorkerActivity::Kind::kCollective;
  waiting.command = 18;
  waiting.what = "allreduce";
  waiting.since = 12'100ms;
  WorkerActivity& sleeping = status.workers[1].activity;
  sleeping.kind = WorkerActivity::Kind::kCommand;
  sleeping.command = 17;
  sleeping.what = "lockstep.sleep";
  sleeping.since = 12'300ms;
  status.workers[1].stuck = true;
  status.workers[1].stack = {"clock_nanosleep", "lockstep::Sleep()"};
  return status;
}

std::string Text(const ClusterStatus& status) {
  std::ostringstream out;
  PrintDiagnosis(out, text::Style(false), status, DiagnoseStall(status));
  return out.str();
}

TEST(StallTextTest, ShowsTheBlockerTheRanksThatWaitAndTheStack) {
  EXPECT_EQ(
      Text(Stuck()),
      "rank 1 is stuck, or slow, in lockstep.sleep\n"
      "\n"
      "rank 1 (box:101) is stuck, or slow: it executes command 17 (lockstep.sleep) of session "
      "3 for 12.3 s; no earlier call of it was long enough to be seen\n"
      "  waiting  rank 0 in command 18 (allreduce) of session 3 for 12.1 s\n"
      "  stack    clock_nanosleep\n"
      "           lockstep::Sleep()\n");
}

TEST(StallTextTest, WhatTheFunctionTookBeforeTellsStuckFromSlow) {
  ClusterStatus status = Stuck();
  status.workers[1].longest_before = 2'100ms;
  EXPECT_THAT(Text(status), HasSubstr("rank 1 is stuck in lockstep.sleep\n"));
  EXPECT_THAT(Text(status), HasSubstr("for 12.3 s; before, this function took 2.1 s at most\n"));
  status.workers[1].longest_before = 9'000ms;
  status.workers[1].stuck = false;
  EXPECT_THAT(Text(status), HasSubstr("no rank is stuck: the others wait for rank 1, busy in "
                                      "lockstep.sleep\n"));
  EXPECT_THAT(Text(status), HasSubstr("for 12.3 s; it has taken up to 9.0 s before\n"));
}

TEST(StallTextTest, RanksWithTheSameStateAreOneEntryWithTheirStacks) {
  ClusterStatus status;
  for (Rank rank = 0; rank < 64; ++rank) {
    WorkerStatus worker = Stuck().workers[1];
    worker.rank = rank;
    worker.pid = 100 + rank;
    worker.host = rank < 32 ? "box" : "crate";
    worker.activity.since = 12'000ms + std::chrono::milliseconds(rank);
    status.workers.push_back(worker);
  }
  EXPECT_EQ(Text(status),
            "ranks 0-63 are stuck, or slow, in lockstep.sleep\n"
            "\n"
            "ranks 0-63 (box, crate) are stuck, or slow: they execute command 17 (lockstep.sleep) "
            "of session 3 for 12.1 s; no earlier call of it was long enough to be seen\n"
            "  stack    clock_nanosleep\n"
            "           lockstep::Sleep()\n");
  status.workers[5].stack = {"another"};
  EXPECT_THAT(Text(status), HasSubstr("\nranks 0-63 (box, crate) are"));
  EXPECT_THAT(Text(status), HasSubstr("  stack    of ranks 0-4, 6-63:\n"
                                      "           clock_nanosleep\n"
                                      "           lockstep::Sleep()\n"
                                      "  stack    of rank 5:\n"
                                      "           another\n"));
}

// All in one function, each at another place of it, as threads are that compute.
ClusterStatus AllInOneFunction(int workers) {
  ClusterStatus status;
  for (Rank rank = 0; rank < workers; ++rank) {
    WorkerStatus worker = Stuck().workers[1];
    worker.rank = rank;
    worker.pid = 100 + rank;
    worker.stuck = false;
    worker.activity.command = 17 + static_cast<uint64_t>(rank % 2);
    worker.stack = {"Inner" + std::to_string(rank % 10), "Step()", "Solve()"};
    for (int frame = 0; frame < 15; ++frame) {
      worker.stack.push_back("Frame" + std::to_string(frame));
    }
    status.workers.push_back(worker);
  }
  return status;
}

TEST(StallTextTest, ManyRanksInOneFunctionAreOneEntryWithFewStacks) {
  for (const int workers : {64, 1024}) {
    ClusterStatus status = AllInOneFunction(workers);
    const std::string text = Text(status);
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 30) << text;
    EXPECT_THAT(text, HasSubstr("ranks 0-" + std::to_string(workers - 1) +
                                " (box) execute commands 17-18 (lockstep.sleep) of session 3 for "
                                "up to 12.3 s"));
    EXPECT_THAT(text, HasSubstr("  stack    of ranks 0, 10, 20, "));
    EXPECT_THAT(text, HasSubstr("           Inner0\n           Step()\n"));
    EXPECT_THAT(text, HasSubstr("           Inner1\n           ... from Step() on as above\n"));
    EXPECT_THAT(text, HasSubstr(" have 7 other stacks; `lockstep why --all` shows each\n"));
    std::ostringstream each;
    PrintDiagnosis(each, text::Style(false), status, DiagnoseStall(status), /*each=*/true);
    const std::string all = each.str();
    EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 1 + workers * (2 + 18));
    EXPECT_EQ(DiagnosisToJson(status, DiagnoseStall(status))["culprits"].size(),
              static_cast<size_t>(workers));
  }
}

TEST(StallTextTest, TheRankInAnotherFunctionComesFirst) {
  for (const int workers : {4, 64, 1024}) {
    ClusterStatus status = AllInOneFunction(workers);
    const Rank other = workers - 2;
    status.workers[static_cast<size_t>(other)].activity.what = "load";
    const std::string text = Text(status);
    const size_t first = text.find("\nrank " + std::to_string(other) + " (box:");
    EXPECT_NE(first, std::string::npos) << text;
    EXPECT_LT(first, text.find("\nranks 0-")) << text;
  }
}

TEST(StallTextTest, LostWorkersTellWhatTheyDidLast) {
  ClusterStatus status = Stuck();
  status.workers[1].state = WorkerState::kLost;
  status.workers[1].reason = "its process 101 was killed by signal 9 (Killed)";
  status.workers[1].stack.clear();
  SessionStatus session;
  session.session = SessionId(3);
  session.name = "train";
  session.host = "box";
  session.pid = 200;
  session.error = "worker rank 1 is lost";
  status.sessions = {session};
  EXPECT_EQ(
      Text(status),
      "rank 1 is lost\n"
      "\n"
      "rank 1 (box:101) is lost: its process 101 was killed by signal 9 (Killed); it was last "
      "seen executing command 17 (lockstep.sleep) of session 3 for 12.3 s\n"
      "  waiting  rank 0 in command 18 (allreduce) of session 3 for 12.1 s\n"
      "\n"
      "session 3 \"train\" (box:200) has failed: worker rank 1 is lost\n");
}

TEST(StallTextTest, WorkersThatWereLostAlikeAreOneEntry) {
  ClusterStatus status = Stuck();
  status.replacement_hint = "run `lockstep up`";
  for (WorkerStatus& worker : status.workers) {
    worker.state = WorkerState::kLost;
    worker.activity = WorkerActivity();
    worker.stack.clear();
    worker.reason =
        "its process " + std::to_string(worker.pid) + " was killed by signal 9 (Killed)";
  }
  EXPECT_EQ(Text(status),
            "ranks 0, 1 are lost\n"
            "\n"
            "ranks 0, 1 (box) are lost: each process was killed by signal 9 (Killed)\n"
            "  to do    run `lockstep up`\n");
  status.workers[0].reason = "it left: it was told to";
  EXPECT_THAT(Text(status), HasSubstr("(box:100) is lost: it left: it was told to\n"
                                      "  to do    run `lockstep up`\n\n"
                                      "rank 1 (box:101) is lost: its process 101 was killed by "
                                      "signal 9 (Killed)\n"))
      << "what to do is the same for all of them";
}

TEST(StallTextTest, WhatToDoIsToldOfWorkOfASessionThatHasEnded) {
  ClusterStatus status = Stuck();
  status.replacement_hint = "run `lockstep up`";
  status.workers[0].activity = WorkerActivity();
  SessionStatus session;
  session.session = SessionId(3);
  session.closing = true;
  session.aborted = 5s;
  status.sessions = {session};
  EXPECT_THAT(Text(status),
              HasSubstr("rank 1 still executes lockstep.sleep of session 3, which has ended; it "
                        "does not give up\n"
                        "\n"
                        "rank 1 (box:101) still executes command 17 (lockstep.sleep) of session 3 "
                        "for 12.3 s, which has ended; it does not give up, and holds all sessions "
                        "up\n"
                        "  to do    `kill -9 101` on box ends it; then run `lockstep up`\n"));
  const Json json = DiagnosisToJson(status, DiagnoseStall(status));
  EXPECT_EQ(json["culprits"][0]["kind"], "ended");
  EXPECT_EQ(json["culprits"][0]["advice"], "`kill -9 101` on box ends it; then run `lockstep up`");
}

TEST(StallTextTest, JsonHasAllOfIt) {
  const ClusterStatus status = Stuck();
  const Json json = DiagnosisToJson(status, DiagnoseStall(status));
  EXPECT_EQ(json["summary"], "rank 1 is stuck, or slow, in lockstep.sleep");
  ASSERT_EQ(json["culprits"].size(), 1u);
  const Json& culprit = json["culprits"][0];
  EXPECT_EQ(culprit["rank"], 1);
  EXPECT_EQ(culprit["kind"], "busy");
  EXPECT_EQ(culprit["stuck"], true);
  EXPECT_EQ(culprit["doing"]["what"], "lockstep.sleep");
  EXPECT_EQ(culprit["doing"]["since_ms"], 12300);
  EXPECT_EQ(culprit["waiting"], Json::array({0}));
  EXPECT_EQ(culprit["stack"].size(), 2u);
  EXPECT_TRUE(culprit["no_stack"].is_null());
  EXPECT_TRUE(json["failed_sessions"].empty());
}

}  // namespace
}  // namespace lockstep::cli
