// Timelines from the command line: what is in the file, read as any viewer would.
#include <signal.h>

#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include <gmock/gmock.h>

#include "tests/integration/cli/cli_fixture.h"
#include "tests/support/patience.h"

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

class TraceCliTest : public CliTest {
 protected:
  // Checks what every viewer relies on; returns the names of the events by process.
  std::map<std::string, std::set<std::string>> Read(const std::string& path) {
    std::map<std::string, std::set<std::string>> names;
    const json document = json::parse(ReadFile(path), nullptr, false);
    EXPECT_FALSE(document.is_discarded()) << ReadFile(path);
    if (document.is_discarded()) return names;
    std::map<int, std::string> processes;
    for (const json& event : document["traceEvents"]) {
      if (event["name"] == "process_name") {
        const std::string label = event["args"]["name"];
        processes[event["pid"]] = label.substr(0, label.find(" ("));
      }
    }
    // By process and thread: what ends last of what has begun, as spans are inside one another.
    std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> spans;
    for (const json& event : document["traceEvents"]) {
      EXPECT_TRUE(event["pid"].is_number_integer()) << event;
      EXPECT_TRUE(event["tid"].is_number_integer()) << event;
      EXPECT_TRUE(event["name"].is_string()) << event;
      const std::string phase = event["ph"];
      if (phase == "M") continue;
      EXPECT_TRUE(event["ts"].is_number()) << event;
      EXPECT_GE(event["ts"].get<double>(), 0) << event;
      if (phase == "X") {
        spans[{event["pid"], event["tid"]}].emplace_back(event["ts"], -event["dur"].get<double>());
      } else {
        EXPECT_THAT("ifs", HasSubstr(phase)) << event;
      }
      if (phase != "s" && phase != "f") names[processes[event["pid"]]].insert(event["name"]);
    }
    constexpr double kRounding = 0.002;  // microseconds
    for (auto& [thread, list] : spans) {
      std::sort(list.begin(), list.end());
      std::vector<double> open;  // ends
      for (const auto& [begin, minus_duration] : list) {
        while (!open.empty() && open.back() <= begin + kRounding) open.pop_back();
        const double end = begin - minus_duration;
        EXPECT_TRUE(open.empty() || end <= open.back() + kRounding)
            << "spans of process " << thread.first << ", thread " << thread.second << " overlap";
        open.push_back(end);
      }
    }
    return names;
  }
  std::string Up() {
    return RunJson({"up", "--detach", "--workers", "2", "--name", "demo", "--set",
                    "worker.arena_bytes=64MiB"})["endpoint"];
  }
};

TEST_F(TraceCliTest, RunWritesATimelineOfTheProgram) {
  const std::string file = scratch_ + "/run.json";
  for (const bool embedded : {true, false}) {
    std::vector<std::string> arguments = {"run", root_ + "/examples/programs/hello.yaml", "--trace",
                                          file};
    if (embedded) {
      arguments.insert(arguments.end(), {"--embedded", "--workers", "2"});
    } else {
      Up();
    }
    const Result result = Run(arguments);
    EXPECT_EQ(result.code, 0) << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr(file + ": "), HasSubstr(" events of 2 ranks")));
    auto names = Read(file);
    EXPECT_EQ(names.size(), 4u);
    EXPECT_THAT(names["client"], Contains("send batch"));
    EXPECT_THAT(names["controller"], Contains("order and send batch"));
    for (const char* rank : {"rank 0", "rank 1"}) {
      EXPECT_THAT(names[rank], AllOf(Contains("allreduce"), Contains("lockstep.full")));
    }
    fs::remove(file);
  }
}

TEST_F(TraceCliTest, ATimelineNamesTheStepsOfAPlan) {
  const std::string file = scratch_ + "/plan.json";
  const Result result =
      Run({"run", root_ + "/examples/plans/gradients.yaml", "--embedded", "--trace", file});
  EXPECT_EQ(result.code, 0) << result.output;
  auto names = Read(file);
  EXPECT_THAT(names["rank 3"],
              AllOf(Contains("execute plan"), Contains("reduce-scatter, gradients.yaml:20"),
                    Contains("lockstep.cast, gradients.yaml:21")));
  const json document = json::parse(ReadFile(file));
  std::set<int> steps;
  for (const json& event : document["traceEvents"]) {
    if (event.contains("args") && event["args"].contains("step"))
      steps.insert(event["args"]["step"].get<int>());
  }
  EXPECT_EQ(steps, (std::set<int>{0, 1, 2}));
}

TEST_F(TraceCliTest, ProgramsThatFailLeaveATimelineToo) {
  const std::string file = scratch_ + "/failed.json";
  const std::string program = WriteProgram(R"(name: fails
steps:
  - {call: lockstep.fail, args: [text:on purpose, 1]}
  - sync
)");
  const Result result = Run({"run", program, "--embedded", "--workers", "2", "--trace", file});
  EXPECT_EQ(result.code, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("on purpose"));
  auto names = Read(file);
  EXPECT_THAT(names["rank 1"], Contains("lockstep.fail"));
  EXPECT_THAT(names["controller"], Contains("session aborted"));
}

TEST_F(TraceCliTest, TraceRecordsARunningClusterAndEndsEarlyWithControlC) {
  Up();
  const std::string file = scratch_ + "/cluster.json";
  const std::string log = NewLog();
  auto trace = Spawn(
      {"trace", "--name", "demo", "--seconds", "600", "--timeout", "60", "--output", file}, log);
  ASSERT_TRUE(trace.ok()) << trace.status();
  const std::string controller_log = RunDirectory("demo") + "/controller.log";
  const Deadline patience = Deadline::After(kPatience);
  while (ReadFile(controller_log).find("record a timeline") == std::string::npos) {
    ASSERT_FALSE(patience.Expired()) << ReadFile(controller_log) << ReadFile(log);
    support::LetOthersWork();
  }
  const Result second =
      Run({"trace", "--name", "demo", "--seconds", "0", "--timeout", "60", "--output", file});
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.output, HasSubstr("one at a time"));
  // Clients that come meanwhile are in it.
  EXPECT_EQ(Run({"call", "lockstep.worker_rank", "--name", "demo"}).code, 0);
  trace->Signal(SIGINT);
  const Result result = ResultOf(std::move(trace), log);
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("events of 2 ranks"));
  auto names = Read(file);
  EXPECT_EQ(names.size(), 3u) << "a client of its own has nothing to tell";
  for (const char* rank : {"rank 0", "rank 1"}) {
    EXPECT_THAT(names[rank], Contains("lockstep.worker_rank"));
  }
}

TEST_F(TraceCliTest, MistakesAreSaidBeforeAnythingIsRecorded) {
  EXPECT_EQ(Run({"trace", "--events", "0"}).code, 2);
  EXPECT_EQ(Run({"trace", "--seconds", "-1"}).code, 2);
  EXPECT_EQ(Run({"trace", "--name", "none"}).code, 3);
  Up();
  const std::string file = scratch_ + "/nobody.json";
  const Result nobody = Run({"trace", "--name", "demo", "--session", "12", "--output", file});
  EXPECT_EQ(nobody.code, 1);
  EXPECT_THAT(nobody.output, HasSubstr("the cluster has no session 12; `lockstep sessions`"));
  EXPECT_FALSE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace lockstep::cli
