#include "tools/cli/cluster_text.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

ClusterStatus SomeCluster() {
  ClusterStatus status;
  status.cluster = "demo";
  status.build = "0.1.0";
  status.controller_pid = 100;
  status.uptime = std::chrono::seconds(65);
  status.batches = 1204;
  WorkerStatus ready;
  ready.rank = 0;
  ready.state = WorkerState::kReady;
  ready.host = "box";
  ready.pid = 101;
  ready.device = "cpu:0";
  ready.backend = "shm";
  ready.metrics_endpoint = "http://127.0.0.1:9465";
  ready.activity.completed = 12345;
  ready.heartbeat_age = std::chrono::milliseconds(20);
  WorkerStatus missing;
  missing.rank = 1;
  status.workers = {ready, missing};
  SessionStatus session;
  session.session = SessionId(7);
  session.name = "train";
  session.host = "box";
  session.pid = 200;
  session.sent_bytes = 4096;
  session.consumed_bytes = 2048;
  status.sessions = {session};
  return status;
}

TEST(ClusterTextTest, SummaryCountsReadyWorkers) {
  std::ostringstream out;
  PrintCluster(out, text::Style(false), SomeCluster(), "ipc:///x");
  EXPECT_EQ(out.str(),
            "cluster     demo  joining\n"
            "workers     1 of 2 ready\n"
            "controller  ipc:///x  pid 100, up 1 min 5 s, version 0.1.0\n"
            "batches     1,204 in epoch 0\n");
}

TEST(ClusterTextTest, ALostWorkerBreaksTheClusterAndSaysWhy) {
  ClusterStatus status = SomeCluster();
  status.workers[1].state = WorkerState::kLost;
  status.workers[1].reason = "no heartbeat for 2000 ms";
  std::ostringstream out;
  PrintCluster(out, text::Style(false), status, "ipc:///x");
  PrintWorkers(out, text::Style(false), status.workers);
  EXPECT_NE(out.str().find("demo  broken"), std::string::npos);
  EXPECT_NE(out.str().find("no heartbeat for 2000 ms"), std::string::npos);
}

TEST(ClusterTextTest, ALostWorkerTellsHowItIsReplaced) {
  ClusterStatus status = SomeCluster();
  status.workers[1].state = WorkerState::kLost;
  status.replacement_hint = "run `lockstep up` for {rank}";
  std::ostringstream out;
  PrintCluster(out, text::Style(false), status, "ipc:///x");
  EXPECT_NE(out.str().find("lost        rank 1: run `lockstep up` for 1\n"), std::string::npos)
      << out.str();
}

// It said that the cluster is ready, while all new clients waited.
TEST(ClusterTextTest, WorkOfASessionThatHasEndedHoldsTheClusterUp) {
  ClusterStatus status = SomeCluster();
  status.workers[1] = status.workers[0];
  status.workers[1].rank = 1;
  for (WorkerStatus& worker : status.workers) {
    worker.activity.kind = WorkerActivity::Kind::kCommand;
    worker.activity.session = SessionId(7);
    worker.activity.command = 3;
    worker.activity.what = "spin";
    worker.activity.since = std::chrono::seconds(90);
  }
  EXPECT_EQ(StateCell(status).text, "ready");
  status.sessions[0].closing = true;
  status.sessions[0].aborted = std::chrono::seconds(80);
  std::ostringstream out;
  PrintCluster(out, text::Style(false), status, "ipc:///x");
  EXPECT_NE(out.str().find("cluster     demo  held up\n"
                           "workers     2 of 2 ready\n"
                           "held up     ranks 0, 1 still execute command 3 (spin) of session 7 for "
                           "90.0 s, which has ended; `lockstep why` tells what to do\n"),
            std::string::npos)
      << out.str();
  EXPECT_EQ(ClusterToJson(status, "ipc:///x")["held_up"].size(), 1u);
}

TEST(ClusterTextTest, WorkersThatAreMissingHaveEmptyCells) {
  std::ostringstream out;
  PrintWorkers(out, text::Style(false), SomeCluster().workers);
  EXPECT_EQ(out.str(),
            "RANK  STATE    HOST  PID  DEVICE  BACKEND  RECEIVED  LAUNCHED  COMPLETED  HEARTBEAT\n"
            "   0  ready    box   101  cpu:0   shm             0         0     12,345  20 ms ago\n"
            "   1  missing\n");
}

// All do the same.
std::vector<WorkerStatus> ManyWorkers(int count) {
  std::vector<WorkerStatus> workers;
  for (Rank rank = 0; rank < count; ++rank) {
    WorkerStatus worker = SomeCluster().workers[0];
    worker.rank = rank;
    worker.pid = 100 + rank;
    worker.host = "box" + std::to_string(rank / 8);
    worker.activity.received = 1000;
    workers.push_back(worker);
  }
  return workers;
}

std::vector<std::string> WorkerLines(const std::vector<WorkerStatus>& workers, bool each = false,
                                     int width = 0) {
  std::ostringstream out;
  PrintWorkers(out, text::Style(false, width), workers, each);
  std::vector<std::string> lines;
  std::istringstream in(out.str());
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(ClusterTextTest, FewWorkersHaveALineEach) {
  for (const int count : {1, 4, 16}) {
    EXPECT_EQ(WorkerLines(ManyWorkers(count)).size(), static_cast<size_t>(count) + 1) << count;
  }
}

TEST(ClusterTextTest, WhoGetsCommandsByRingIsSaid) {
  std::vector<WorkerStatus> workers = SomeCluster().workers;
  const auto text = [&] {
    std::ostringstream out;
    PrintWorkers(out, text::Style(false), workers);
    return out.str();
  };
  EXPECT_EQ(text().find("commands by"), std::string::npos);
  workers[1].by_ring = true;
  EXPECT_NE(
      text().find("commands by ring (rank 1): through memory shared with the controller; to the "
                  "others by socket\n"),
      std::string::npos)
      << text();
  EXPECT_EQ(WorkersToJson(workers)[0]["commands_by"], "socket");
  EXPECT_EQ(WorkersToJson(workers)[1]["commands_by"], "ring");
  workers[0].by_ring = true;
  EXPECT_NE(text().find("commands by ring: through memory shared with the controller\n"),
            std::string::npos)
      << text();
}

TEST(ClusterTextTest, OfManyWorkersThoseThatDoTheSameShareALine) {
  for (const int count : {64, 1024}) {
    const std::vector<std::string> lines = WorkerLines(ManyWorkers(count));
    ASSERT_EQ(lines.size(), 3u) << count;
    EXPECT_EQ(lines[1].substr(0, lines[1].find("  ready")),
              "0-" + std::to_string(count - 1) + std::string(count == 64 ? 8 : 5, ' ') +
                  std::to_string(count))
        << lines[1];
    EXPECT_NE(lines[1].find("box0, box1 and "), std::string::npos) << lines[1];
    EXPECT_NE(lines[2].find("1 group of those that do the same; --all shows each"),
              std::string::npos);
    EXPECT_EQ(WorkerLines(ManyWorkers(count), /*each=*/true).size(),
              static_cast<size_t>(count) + 1);
  }
}

TEST(ClusterTextTest, WhatDiffersComesFirst) {
  std::vector<WorkerStatus> workers = ManyWorkers(1024);
  for (WorkerStatus& worker : workers) {
    worker.activity.kind = WorkerActivity::Kind::kCommand;
    worker.activity.session = SessionId(1);
    worker.activity.what = "solve";
    worker.activity.command = 17 + static_cast<uint64_t>(worker.rank % 3);
    worker.activity.since = std::chrono::milliseconds(900 + worker.rank);
  }
  workers[5].activity.what = "load";
  workers[7].activity.received = 10;
  workers[9].stuck = true;
  for (const Rank rank : {100, 101, 102}) {
    workers[rank].state = WorkerState::kLost;
    workers[rank].reason = "no heartbeat for " + std::to_string(1800 + rank) + " ms";
  }
  const std::vector<std::string> lines = WorkerLines(workers);
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_EQ(lines[1].substr(0, 7), "100-102");
  EXPECT_NE(lines[1].find("no heartbeat for 19"), std::string::npos) << lines[1];
  EXPECT_EQ(lines[2].substr(0, 2), "9 ") << "it is stuck";
  EXPECT_EQ(lines[3].substr(0, 2), "7 ") << "it is behind";
  EXPECT_EQ(lines[4].substr(0, 2), "5 ") << "it is in another function";
  EXPECT_EQ(lines[5].substr(0, 26), "0-4, 6, 8, 10-99, 103-1023");
  EXPECT_NE(lines[5].find("commands 17-19 (solve) of session 1 for up to 1.9 s"), std::string::npos)
      << lines[5];
  EXPECT_NE(lines[5].find("1,000"), std::string::npos) << lines[5];
}

TEST(ClusterTextTest, GroupsFitTheTerminal) {
  std::vector<WorkerStatus> workers = ManyWorkers(1024);
  for (size_t i = 0; i < workers.size(); i += 2) {
    workers[i].state = WorkerState::kLost;
    workers[i].reason = "its process " + std::to_string(workers[i].pid) +
                        " was killed by signal 9 (Killed); the kernel was out of memory";
  }
  for (const int width : {80, 120, 200}) {
    for (const std::string& line : WorkerLines(workers, false, width)) {
      EXPECT_LE(text::DisplayWidth(line), width) << line;
    }
  }
  EXPECT_NE(WorkerLines(workers, false, 120)[1].find("each process was killed"), std::string::npos);
}

TEST(ClusterTextTest, JsonHasEverythingAndNullWhereNothingIsWrong) {
  const Json json = ClusterToJson(SomeCluster(), "ipc:///x");
  EXPECT_EQ(json["cluster"], "demo");
  EXPECT_EQ(json["ready"], false);
  EXPECT_EQ(json["workers"][0]["completed"], 12345);
  EXPECT_EQ(json["workers"][0]["metrics"], "http://127.0.0.1:9465");
  EXPECT_EQ(json["metrics"], "") << "the controller serves none";
  EXPECT_EQ(json["workers"][1]["state"], "missing");
  EXPECT_TRUE(json["workers"][1]["reason"].is_null());
  EXPECT_EQ(json["sessions"][0]["session"], 7);
  EXPECT_TRUE(json["sessions"][0]["error"].is_null());
}

}  // namespace
}  // namespace lockstep::cli
