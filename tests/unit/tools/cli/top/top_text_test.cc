#include "tools/cli/top/top_text.h"

#include <gtest/gtest.h>
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

using namespace std::chrono_literals;

TopView SomeView(int workers) {
  Sample before;
  before.taken = std::chrono::steady_clock::time_point(0s);
  Sample after;
  after.taken = std::chrono::steady_clock::time_point(2s);
  ClusterStatus& status = after.status;
  status.cluster = "demo";
  status.epoch = Epoch(17);
  status.uptime = 65s;
  status.batches = 200;
  status.compared_collectives = 10;
  for (Rank rank = 0; rank < workers; ++rank) {
    WorkerStatus worker;
    worker.rank = rank;
    worker.state = WorkerState::kReady;
    worker.host = "box";
    worker.heartbeat_age = 120ms;
    worker.activity.received = 199;
    worker.activity.completed = 2469;
    worker.activity.registers = 12;
    worker.activity.tensor_bytes = uint64_t{64} << 20;
    worker.activity.collectives = 20;
    worker.activity.bus_bytes = uint64_t{2} << 30;
    worker.activity.in_collectives = 500ms;
    status.workers.push_back(worker);
  }
  status.workers[1].times_last = 9;
  status.workers[1].late_by = 18ms;
  status.workers[1].activity.kind = WorkerActivity::Kind::kCollective;
  status.workers[1].activity.what = "allreduce";
  status.workers[1].activity.session = SessionId(7);
  status.workers[1].activity.since = 400ms;
  before.status.workers.resize(status.workers.size());
  SessionStatus session;
  session.session = SessionId(7);
  session.name = "train";
  session.host = "box";
  session.pid = 200;
  session.age = 30s;
  session.commands = 100;
  session.sent_bytes = 4096;
  status.sessions = {session};
  return {status, RatesBetween(before, after), ""};
}

std::string Text(const TopView& view, TopWindow window) {
  std::string text;
  for (const std::string& line : RenderTop(view, text::Style(false), window)) text += line + "\n";
  return text;
}

TEST(TopTextTest, WithoutATerminalAllIsShown) {
  EXPECT_EQ(
      Text(SomeView(2), {}),
      "demo  ready  2 of 2 workers ready  up 1 min 5 s  epoch 17\n"
      "1 session  100 batches/s  2 GiB/s in collectives\n"
      "\n"
      "RANK  STATE  HOST  HEARTBEAT  CMD/S  QUEUE  REGISTERS   BYTES  COLL/S    MOVED  BUSY  LAST"
      "    LATE  DOING\n"
      "   0  ready  box      120 ms  1,235      1         12  64 MiB      10  1 GiB/s   25%    0%"
      "       -  idle\n"
      "   1  ready  box      120 ms  1,235      1         12  64 MiB      10  1 GiB/s   45%   90%"
      "  2.0 ms  allreduce for 400 ms, session 7\n"
      "\n"
      "SESSION  NAME   CLIENT   STATE     AGE  CMD/S     SENT  WAITING\n"
      "      7  train  box:200  open   30.0 s     50  2 KiB/s    4 KiB\n");
}

TEST(TopTextTest, ANarrowTerminalGetsWhatMattersMost) {
  EXPECT_EQ(Text(SomeView(2), {60, 12}),
            "demo  ready  2 of 2 workers ready  up 1 min 5 s  epoch 17\n"
            "1 session  100 batches/s  2 GiB/s in collectives\n"
            "\n"
            "RANK  STATE  CMD/S    MOVED  DOING\n"
            "   0  ready  1,235  1 GiB/s  idle\n"
            "   1  ready  1,235  1 GiB/s  allreduce for 400 ms, session 7\n"
            "\n"
            "SESSION  NAME   CLIENT   STATE  CMD/S     SENT  WAITING\n"
            "      7  train  box:200  open      50  2 KiB/s    4 KiB\n"
            "\n"
            "\n"
            "q quit\n");
}

TEST(TopTextTest, AnyTerminalIsFilledAndNotOverflowed) {
  TopView view = SomeView(64);
  view.status.sessions.resize(20, view.status.sessions[0]);
  view.rates.sessions.resize(20);
  view.trouble = "this is 4.0 s old: no controller answers at ipc:///somewhere within 2000 ms";
  for (const int width : {20, 40, 80, 132, 200}) {
    for (const int height : {8, 10, 24, 50, 100, 200}) {
      TopWindow window{width, height, 5};
      const std::vector<std::string> lines = RenderTop(view, text::Style(false), window);
      EXPECT_EQ(lines.size(), static_cast<size_t>(height)) << width;
      if (width < 40) continue;  // a table of two columns is as narrow as it gets
      for (const std::string& line : lines) EXPECT_LE(text::DisplayWidth(line), width) << line;
    }
  }
}

TEST(TopTextTest, ManyWorkersScroll) {
  TopWindow window{80, 24, 60, /*each=*/true};
  const std::vector<std::string> lines = RenderTop(SomeView(64), text::Style(false), window);
  EXPECT_EQ(window.first, 64 - 16) << "not beyond the last";
  EXPECT_EQ(lines[4].substr(0, 12), "  48  ready ");
  EXPECT_EQ(lines.back(), "q quit  g groups  ↑↓ ranks 48-63 of 64");
  window.first = -3;
  RenderTop(SomeView(64), text::Style(false), window);
  EXPECT_EQ(window.first, 0);
}

TEST(TopTextTest, OfManyWorkersThoseThatDoTheSameShareALine) {
  for (const int workers : {64, 1024}) {
    TopView view = SomeView(workers);
    view.status.workers[3].state = WorkerState::kLost;
    view.status.workers[3].reason = "no heartbeat for 1801 ms";
    TopWindow window{100, 24};
    const std::vector<std::string> lines = RenderTop(view, text::Style(false), window);
    EXPECT_EQ(lines[4].substr(lines[4].find_first_not_of(' '), 7), "3  lost") << lines[4];
    EXPECT_NE(lines[4].find("no heartbeat for 1801 ms"), std::string::npos) << lines[4];
    EXPECT_EQ(lines[5].substr(lines[5].find_first_not_of(' '), 8), "1  ready") << "it is late";
    EXPECT_NE(lines[5].find("90%"), std::string::npos) << lines[5];
    const std::string rest = "0, 2, 4-" + std::to_string(workers - 1) + "  ready";
    EXPECT_NE(lines[6].find(rest), std::string::npos) << lines[6];
    EXPECT_NE(lines[6].find("1,235"), std::string::npos) << lines[6];
    EXPECT_EQ(lines[7], "");
    EXPECT_EQ(lines.back(), "q quit  a all");
  }
}

TEST(TopTextTest, ForeignTextMovesNoCursor) {
  TopView view = SomeView(2);
  view.status.sessions[0].name = "\033[2J\n";
  view.status.workers[1].activity.what = "\033[31m";
  view.trouble = "\033[5m";
  const std::string text = Text(view, {80, 24});
  EXPECT_EQ(text.find('\033'), std::string::npos) << text;
  EXPECT_NE(text.find("\\x1b[2J\\n"), std::string::npos) << text;
}

// Of a controller that counts more bytes between two looks than there are numbers for in a second.
TEST(TopTextTest, RatesBeyondAllCountsAreShownAsVeryLarge) {
  TopView view = SomeView(2);
  view.rates.workers[0].bus_bytes = 1e30;
  view.rates.workers[0].commands = 1e30;
  const std::string text = Text(view, {});
  EXPECT_NE(text.find("1,000,000,000,000,000,000"), std::string::npos) << text;
}

TEST(TopTextTest, LostWorkersSayWhyAndHaveNoRates) {
  TopView view = SomeView(2);
  view.status.workers[1].state = WorkerState::kLost;
  view.status.workers[1].reason = "no heartbeat for 2000 ms";
  const std::string text = Text(view, {});
  EXPECT_NE(text.find("demo  broken  1 of 2 workers ready"), std::string::npos) << text;
  EXPECT_NE(text.find("no heartbeat for 2000 ms"), std::string::npos) << text;
}

TEST(TopTextTest, JsonHasTheRates) {
  const Json json = TopToJson(SomeView(2));
  EXPECT_EQ(json["batches_per_second"], 100);
  EXPECT_EQ(json["workers"][1]["last_share"], 0.9);
  EXPECT_EQ(json["workers"][1]["late_ms"], 2);
  EXPECT_EQ(json["workers"][1]["doing"], "allreduce");
  EXPECT_TRUE(json["workers"][0]["doing"].is_null());
  EXPECT_EQ(json["sessions"][0]["commands_per_second"], 50);
}

}  // namespace
}  // namespace lockstep::cli
