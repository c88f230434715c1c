// What `lockstep sessions`, `registers`, `top` and `logs` show of clusters of real services.
#include <gmock/gmock.h>
#include <signal.h>

#include <functional>
#include <map>
#include <optional>
#include <set>

#include "tests/integration/cli/cli_fixture.h"
#include "tests/integration/cli/terminal.h"
#include "tests/support/patience.h"

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Longer than any test; a session that fails, or a program that is killed, ends it.
constexpr char kForEver[] = "3600.0";

class ViewsTest : public CliTest {
 protected:
  void Up(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"up", "--detach", "--workers",
                                          "2",  "--set",    "worker.arena_bytes=64MiB"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    up_ = RunJson(arguments);
  }

  // A program that goes on until its test ends.
  void StartProgram(const std::string& steps) { StartProgramOf("steps:\n" + steps); }
  void StartProgramOf(const std::string& file) {
    program_.emplace(*Spawn({"run", WriteProgram(file)}, NewLog()));
  }
  void TearDown() override {
    if (!program_.has_value()) return;
    program_->Signal(SIGKILL);
    (void)program_->Wait(Deadline::After(kPatience));
  }

  // Asks again and again, until `found`.
  json Once(const std::vector<std::string>& question,
            const std::function<bool(const json&)>& found) {
    const Deadline deadline = Deadline::After(kPatience);
    while (true) {
      const json answer = RunJson(question);
      if (found(answer)) return answer;
      if (deadline.Expired()) {
        ADD_FAILURE() << "not found in time: " << answer.dump(2);
        return answer;
      }
      support::LetOthersWork();
    }
  }
  // Until rank 1 sleeps, and rank 0 has executed what it can.
  json OnceRank1IsBusy() {
    return Once({"registers"}, [](const json& ranks) {
      return !ranks[1]["why_not"].is_null() && !ranks[0]["sessions"].empty() &&
             ranks[0]["sessions"][0]["registers"] > 4;
    });
  }

  Terminal OpenTerminal(std::vector<std::string> arguments, int width, int height) {
    arguments.insert(arguments.begin(), root_ + "/tools/cli/lockstep");
    return Terminal(arguments, {"XDG_RUNTIME_DIR=" + scratch_, "LOCKSTEP_ENDPOINT=", "TERM=xterm"},
                    width, height);
  }
  static Deadline Patience() { return Deadline::After(kPatience); }

  json up_;
  std::optional<ChildProcess> program_;
};

TEST_F(ViewsTest, RegistersOfEachKindAreShownAndABusyRankSaysWithWhat) {
  Up();
  StartProgram(
      "  - {full: [2, 3], value: 1, as: x}\n"
      "  - {call: lockstep.worker_rank, as: rank}\n"
      "  - {call: lockstep.identity, args: [text:secret], as: words}\n"
      "  - {call: lockstep.identity, args: [[1, \"a\"]], as: list}\n"
      "  - {call: lockstep.sleep, args: [" +
      std::string(kForEver) + ", 1]}\n");
  const json ranks = OnceRank1IsBusy();
  EXPECT_THAT(ranks[1]["why_not"],
              AllOf(HasSubstr("busy with command"), HasSubstr("(lockstep.sleep)"),
                    HasSubstr("of session 1 for")));
  std::map<std::string, json> by_type;
  for (const json& held : ranks[0]["sessions"][0]["listed"]) by_type[held["type"]] = held;
  EXPECT_EQ(by_type["tensor"]["dtype"], "float32");
  EXPECT_EQ(by_type["tensor"]["shape"], (json{2, 3}));
  EXPECT_EQ(by_type["tensor"]["device"], "cpu:0");
  EXPECT_EQ(by_type["tensor"]["bytes"], 24);
  EXPECT_TRUE(by_type.contains("int64"));
  EXPECT_EQ(by_type["text"]["bytes"], 6);
  EXPECT_EQ(by_type["list"]["what"], "2 items");
  EXPECT_THAT(by_type["function"]["what"], HasSubstr("function lockstep."));
  EXPECT_THAT(ranks.dump(), Not(HasSubstr("secret")));

  const Result table = Run({"registers"});
  EXPECT_EQ(table.code, 0) << table.output;
  EXPECT_THAT(table.output, AllOf(HasSubstr("tensor    float32  [2, 3]  cpu:0"),
                                  HasSubstr("rank 1 has not told what it holds: it is busy with")));
  const json sessions = RunJson({"sessions"});
  ASSERT_EQ(sessions.size(), 1u);
  EXPECT_EQ(sessions[0]["state"], "open");
  ASSERT_EQ(sessions[0]["ranks"].size(), 1u) << "rank 1 is busy";
  EXPECT_EQ(sessions[0]["ranks"][0]["rank"], 0);
  EXPECT_GE(sessions[0]["ranks"][0]["registers"], 5);
  EXPECT_EQ(
      RunJson({"registers", "--rank", "0", "--limit", "2"})[0]["sessions"][0]["listed"].size(), 2u);
}

TEST_F(ViewsTest, RegistersAreShownWithTheirLayouts) {
  Up();
  StartProgramOf(
      "plan:\n"
      "  meshes: {both: {ranks: [1, 0]}}\n"
      "  layouts:\n"
      "    sums: {shape: [6, 2], dtype: f32, mesh: both, placements: [partial(sum)]}\n"
      "    rows: {shape: [6, 2], dtype: f32, mesh: both, placements: [shard(0)]}\n"
      "  inputs: {x: sums}\n"
      "  steps: [{reshard: x, to: rows, as: y}]\n"
      "  outputs: [y]\n"
      "steps:\n"
      "  - {full: [6, 2], value: 1, as: x}\n"
      "  - {execute: plan}\n"
      "  - {call: lockstep.sleep, args: [" +
      std::string(kForEver) + ", 1]}\n");
  std::map<std::string, json> by_layout;
  const json ranks = OnceRank1IsBusy();
  for (const json& held : ranks[0]["sessions"][0]["listed"]) {
    if (held.contains("layout")) by_layout[held["layout"]["placements"][0]] = held;
  }
  ASSERT_EQ(by_layout.size(), 1u);
  EXPECT_EQ(by_layout["shard(0)"]["shape"], (json{3, 2})) << "the tile";
  EXPECT_EQ(by_layout["shard(0)"]["layout"],
            (json{{"dtype", "float32"},
                  {"shape", {6, 2}},
                  {"axes", json::array({{{"name", "x"}, {"size", 2}}})},
                  {"ranks", {1, 0}},
                  {"placements", {"shard(0)"}}}));
  EXPECT_THAT(Run({"registers"}).output,
              AllOf(HasSubstr("LAYOUT"), HasSubstr("float32[6, 2] shard(0) on 1, 0")));
}

TEST_F(ViewsTest, WhatIsNotThereIsSaid) {
  Up();
  EXPECT_THAT(Run({"sessions"}).output, HasSubstr("no session is open"));
  EXPECT_THAT(Run({"registers"}).output, HasSubstr("no session is open"));
  const Result session = Run({"registers", "--session", "77"});
  EXPECT_EQ(session.code, 1);
  EXPECT_THAT(session.output, HasSubstr("session 77 is not open; `lockstep sessions` lists"));
  const Result rank = Run({"registers", "--rank", "2"});
  EXPECT_EQ(rank.code, 2) << rank.output;
  EXPECT_THAT(rank.output, HasSubstr("there is no rank 2: the ranks are 0 to 1"));
}

TEST_F(ViewsTest, TopTellsHowFastCollectivesGoAndWhoIsLate) {
  Up();
  // Rank 1 is late to each, by more than others take the processor away from rank 0 for.
  StartProgram(
      "  - {full: [65536], value: 1, as: x}\n"
      "  - repeat: 1000000\n"
      "    steps:\n"
      "      - {allreduce: x, as: y}\n"
      "      - {call: lockstep.sleep, args: [0.02, 1]}\n");
  const json top = Once({"top", "--once", "--interval", "0.5"}, [](const json& now) {
    return now["compared_collectives"] > 10 && now["workers"][1]["last_share"] > 0.6;
  });
  ASSERT_EQ(top["workers"].size(), 2u);
  for (const json& worker : top["workers"]) {
    EXPECT_GT(worker["commands_per_second"], 0);
    EXPECT_GT(worker["collectives_per_second"], 0);
    EXPECT_GT(worker["bus_bytes_per_second"], 65536);
    EXPECT_GT(worker["collective_share"], 0);
    EXPECT_GT(worker["registers"], 0);
  }
  EXPECT_GT(top["workers"][1]["late_ms"], 0);
  EXPECT_GT(top["batches_per_second"], 0);
  EXPECT_GT(top["sessions"][0]["commands_per_second"], 0);
  const Result text = Run({"top", "--once", "--interval", "0.2"});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.output,
              AllOf(HasSubstr("2 of 2 workers ready"), HasSubstr("LAST"), Not(HasSubstr("\033"))));
}

TEST_F(ViewsTest, TopWithoutATerminalSaysWhatToDo) {
  Up();
  const Result top = Run({"top"});
  EXPECT_EQ(top.code, 2);
  EXPECT_THAT(top.output, HasSubstr("is no terminal; `lockstep top --once`"));
  EXPECT_EQ(Run({"top", "--output", "json"}).code, 2) << "needs --once";
  EXPECT_EQ(Run({"top", "--name", "nobody"}).code, 3);
}

constexpr char kRestored[] = "\033[?7h\033[?25h\033[?1049l";

TEST_F(ViewsTest, LiveTopFitsTheTerminalAndGivesItBackAtQ) {
  Up({"--name", "demo"});
  Terminal terminal = OpenTerminal({"top", "--interval", "0.1"}, 80, 24);
  ASSERT_TRUE(terminal.ReadUntil([&] { return terminal.Picture().size() == 24; }, Patience()))
      << terminal.output();
  EXPECT_THAT(terminal.output(), HasSubstr("\033[?1049h"));
  EXPECT_THAT(terminal.Picture()[0], StartsWith("demo  ready  2 of 2 workers ready"));
  EXPECT_EQ(terminal.Picture().back(), "q quit");
  terminal.Resize(40, 10);
  EXPECT_TRUE(terminal.ReadUntil([&] { return terminal.Picture().size() == 10; }, Patience()));
  for (const std::string& line : terminal.Picture()) EXPECT_LE(line.size(), 40u) << line;
  terminal.Type("q");
  EXPECT_EQ(terminal.Wait(Patience()), 0);
  EXPECT_TRUE(terminal.output().ends_with(kRestored));
}

TEST_F(ViewsTest, LiveTopGivesTheTerminalBackAtAnInterrupt) {
  Up();
  for (const bool by_key : {true, false}) {
    Terminal terminal = OpenTerminal({"top"}, 80, 24);
    ASSERT_TRUE(terminal.ReadUntil([&] { return terminal.Picture().size() == 24; }, Patience()));
    by_key ? terminal.Type("\003") : terminal.Signal(SIGTERM);
    EXPECT_EQ(terminal.Wait(Patience()), 0) << by_key;
    EXPECT_TRUE(terminal.output().ends_with(kRestored)) << by_key;
  }
}

TEST_F(ViewsTest, LiveTopThatIsStoppedGivesTheTerminalBackUntilItIsContinued) {
  Up();
  Terminal terminal = OpenTerminal({"top"}, 80, 24);
  ASSERT_TRUE(terminal.ReadUntil([&] { return terminal.Picture().size() == 24; }, Patience()));
  terminal.Type("\032");
  ASSERT_TRUE(terminal.AwaitStop());
  EXPECT_TRUE(
      terminal.ReadUntil([&] { return terminal.output().ends_with(kRestored); }, Patience()));
  const size_t before = terminal.output().size();
  terminal.Signal(SIGCONT);
  EXPECT_TRUE(terminal.ReadUntil(
      [&] { return terminal.output().find("\033[J", before) != std::string::npos; }, Patience()));
  EXPECT_NE(terminal.output().find("\033[?1049h", before), std::string::npos);
  terminal.Type("q");
  EXPECT_EQ(terminal.Wait(Patience()), 0);
}

TEST_F(ViewsTest, LiveTopGoesOnWhenTheClusterIsGoneAndSaysSo) {
  Up();
  Terminal terminal = OpenTerminal({"top", "--interval", "0.1", "--timeout", "0.5"}, 80, 24);
  ASSERT_TRUE(terminal.ReadUntil([&] { return terminal.Picture().size() == 24; }, Patience()));
  EXPECT_EQ(Run({"down"}).code, 0);
  EXPECT_TRUE(terminal.ReadUntil(
      [&] { return terminal.Picture()[2].find(" old: ") != std::string::npos; }, Patience()))
      << terminal.output();
  terminal.Type("q");
  EXPECT_EQ(terminal.Wait(Patience()), 0);
  EXPECT_TRUE(terminal.output().ends_with(kRestored));
}

TEST_F(ViewsTest, LiveTopHearsKeysWhileTheControllerDoesNotAnswer) {
  Up();
  // Longer than any wait here.
  Terminal terminal = OpenTerminal({"top", "--interval", "0.1", "--timeout", "3000"}, 80, 24);
  ASSERT_TRUE(terminal.ReadUntil([&] { return terminal.Picture().size() == 24; }, Patience()));
  EXPECT_EQ(Run({"down"}).code, 0);
  EXPECT_TRUE(terminal.ReadUntil(
      [&] { return terminal.Picture()[2].find("not answered yet") != std::string::npos; },
      Patience()))
      << terminal.output();
  terminal.Type("q");
  EXPECT_EQ(terminal.Wait(Patience()), 0);
}

// As `lockstep logs --output json` writes them: an object a line.
std::vector<json> Objects(const std::string& lines) {
  std::vector<json> objects;
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) objects.push_back(json::parse(line));
  return objects;
}

TEST_F(ViewsTest, LogsOfAllServicesAreMergedByTimeInEitherFormat) {
  Up({"--set", "worker.log_format=json"});
  const std::vector<json> all = Objects(Run({"logs", "--output", "json"}).output);
  std::set<std::string> sources;
  std::string last_time;
  for (const json& line : all) {
    sources.insert(line["source"]);
    EXPECT_GE(line["time"].get<std::string>(), last_time);
    last_time = line["time"];
    EXPECT_EQ(line["level"], "info") << line;
  }
  EXPECT_THAT(sources, ElementsAre("controller", "worker-0", "worker-1"));
  const Result one = Run({"logs", "--rank", "1"});
  EXPECT_THAT(one.output,
              AllOf(HasSubstr(" I worker-1  rank=1 epoch="), Not(HasSubstr("worker-0 "))));
  EXPECT_THAT(Run({"logs", "--controller"}).output,
              AllOf(HasSubstr("all 2 workers are ready"), Not(HasSubstr("worker-0 "))));
  EXPECT_EQ(Objects(Run({"logs", "--lines", "2", "--output", "json"}).output).size(), 2u);
  EXPECT_EQ(Run({"logs", "--level", "warn"}).output, "");
  EXPECT_EQ(Run({"logs", "--rank", "2"}).code, 2);
  EXPECT_EQ(Run({"logs", "--connect", up_["endpoint"]}).output, Run({"logs"}).output);
}

TEST_F(ViewsTest, LogsOfAClusterThatHasEndedBadlyAreThere) {
  Up();
  std::vector<pid_t> pids = up_["worker_pids"];
  pids.push_back(up_["controller_pid"]);
  std::ofstream(RunDirectory("lockstep") + "/worker-1.log", std::ios::app)
      << "terminate called\033[2J\n";
  for (const pid_t pid : pids) kill(pid, SIGKILL);
  const Deadline deadline = Patience();
  for (const pid_t pid : pids) {
    while (IsRunning(pid)) ASSERT_FALSE(deadline.Expired());
  }
  const Result logs = Run({"logs", "--level", "error"});
  EXPECT_EQ(logs.code, 0) << logs.output;
  EXPECT_THAT(logs.output, HasSubstr("worker-1    terminate called\\x1b[2J\n"))
      << "a crash's last words are shown from every level on";
  const Result follow = Run({"logs", "--follow", "--lines", "1"});
  EXPECT_EQ(follow.code, 0);
  EXPECT_THAT(follow.output, HasSubstr("the cluster \"lockstep\" has ended\n"));
}

TEST_F(ViewsTest, LogsAreFollowedUntilAnInterrupt) {
  Up();
  const std::string log = NewLog();
  StatusOr<ChildProcess> follow = Spawn({"logs", "--follow", "--lines", "0"}, log);
  ASSERT_TRUE(follow.ok()) << follow.status();
  const Deadline deadline = Patience();
  // Again and again: a reader that follows from the end may have come later than the first.
  while (ReadFile(log).find("\" opened by ") == std::string::npos) {
    ASSERT_FALSE(deadline.Expired()) << ReadFile(log);
    EXPECT_EQ(Run({"call", "lockstep.worker_rank"}).code, 0);
  }
  follow->Signal(SIGINT);
  const auto status = follow->Wait(deadline);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_TRUE(status->ok()) << status->Describe();
}

TEST_F(ViewsTest, LogsOfOtherClustersAreToldWhereToLookFor) {
  const Result nobody = Run({"logs"});
  EXPECT_EQ(nobody.code, 3);
  EXPECT_THAT(nobody.output, AllOf(HasSubstr("no cluster \"lockstep\""), HasSubstr("journalctl")));
  const Result other = Run({"logs", "--connect", "tcp://127.0.0.1:1"});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.output, AllOf(HasSubstr("not started by `lockstep up` on this host"),
                                  HasSubstr("journalctl"), HasSubstr("kubectl logs")));
  EXPECT_EQ(Run({"logs", "--name", "../x"}).code, 2);
}

TEST_F(ViewsTest, LogsOfAStartThatHasFailedAreThere) {
  worker_ = scratch_ + "/broken";
  std::ofstream(worker_) << "#!/bin/sh\necho cannot load libmissing.so >&2\nexit 1\n";
  fs::permissions(worker_, fs::perms::owner_all);
  EXPECT_EQ(Run({"up", "--detach", "--workers", "1"}).code, 1);
  EXPECT_THAT(Run({"logs"}).output, HasSubstr("cannot load libmissing.so"));
}

}  // namespace
}  // namespace lockstep::cli
