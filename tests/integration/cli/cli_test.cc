// The `lockstep` program, driven as people and scripts drive it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <set>
#include <sstream>

#include "tests/integration/cli/cli_fixture.h"
#include "tests/integration/cli/terminal.h"
#include "tests/support/patience.h"

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(CliTest, ADetachedClusterIsFoundUsedAndStopped) {
  const json up = RunJson({"up", "--detach", "--workers", "3", "--name", "demo"});
  EXPECT_EQ(up["cluster"], "demo");
  ASSERT_EQ(up["worker_pids"].size(), 3u);
  struct stat info {};
  ASSERT_EQ(stat(RunDirectory("demo").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);

  const json status = RunJson({"status"});
  EXPECT_EQ(status["cluster"], "demo");
  EXPECT_EQ(status["ready"], true);
  EXPECT_EQ(status["controller_pid"], up["controller_pid"]);
  const json workers = RunJson({"workers", "--connect", up["endpoint"]});
  ASSERT_EQ(workers.size(), 3u);
  EXPECT_EQ(workers[2]["pid"], up["worker_pids"][2]);
  const json ranks = RunJson({"call", "lockstep.worker_rank", "--name", "demo"});
  EXPECT_EQ(ranks[2], (json{{"rank", 2}, {"value", 2}}));
  EXPECT_EQ(Run({"run", root_ + "/examples/programs/hello.yaml"}).code, 0);

  EXPECT_EQ(Run({"down", "demo"}).code, 0);
  EXPECT_FALSE(IsRunning(up["controller_pid"]));
  for (const json& pid : up["worker_pids"]) EXPECT_FALSE(IsRunning(pid)) << pid;
  EXPECT_FALSE(fs::exists(RunDirectory("demo")));
  EXPECT_EQ(Run({"status", "--name", "demo"}).code, 3);
}

bool HasTerminal(pid_t pid) {
  const std::string stat = ReadFile("/proc/" + std::to_string(pid) + "/stat");
  // Behind the name: state, parent, group, session, terminal.
  const size_t name_end = stat.rfind(") ");
  std::istringstream fields(name_end == std::string::npos ? "" : stat.substr(name_end + 2));
  std::string state;
  int parent = 0, group = 0, session = 0, terminal = -1;
  EXPECT_TRUE(fields >> state >> parent >> group >> session >> terminal) << stat;
  return terminal != 0;
}

// The kernel may deal out time to sessions first (autogroup): its processes share theirs with each
// other, and with clients in that terminal.
TEST_F(CliTest, ADetachedClusterOutlivesTheTerminalWhoseSessionItShares) {
  const std::string up = root_ + "/tools/cli/lockstep up --detach --workers 2 --name demo";
  Terminal terminal({"/bin/sh", "-c", up + "; echo $$ is the shell; read line"}, Environment(), 80,
                    24);
  ASSERT_TRUE(terminal.ReadUntil(
      [&] { return terminal.output().find("is the shell") != std::string::npos; },
      Deadline::After(kPatience)))
      << terminal.output();
  const pid_t shell = terminal.pid();
  EXPECT_TRUE(HasTerminal(shell));
  const json status = RunJson({"status", "--name", "demo"});
  ASSERT_TRUE(status.is_object());
  std::vector<pid_t> processes = {status["controller_pid"]};
  for (const json& worker : RunJson({"workers", "--name", "demo"})) {
    processes.push_back(worker["pid"]);
  }
  ASSERT_EQ(processes.size(), 3u);
  for (const pid_t pid : processes) {
    EXPECT_EQ(getsid(pid), shell);
    EXPECT_FALSE(HasTerminal(pid)) << "what it runs could ask there, and wait";
  }
  terminal.HangUp();
  const Deadline deadline = Deadline::After(kPatience);
  while (IsRunning(shell) && !deadline.Expired()) support::LetOthersWork();
  ASSERT_FALSE(IsRunning(shell));
  EXPECT_EQ(RunJson({"status", "--name", "demo"})["ready"], true);
  EXPECT_EQ(Run({"call", "lockstep.worker_rank", "--name", "demo"}).code, 0);
  for (const pid_t pid : processes) EXPECT_TRUE(IsRunning(pid)) << pid;
}

TEST_F(CliTest, ASecondClusterOfTheSameNameIsRefused) {
  ASSERT_EQ(Run({"up", "--detach", "--workers", "1"}).code, 0);
  const Result second = Run({"up", "--detach", "--workers", "1"});
  EXPECT_EQ(second.code, 1);
  EXPECT_NE(second.output.find("already runs"), std::string::npos) << second.output;
  ASSERT_EQ(Run({"up", "--detach", "--workers", "1", "--name", "other"}).code, 0);
  EXPECT_EQ(Run({"down"}).code, 2) << "two clusters: one must be named";
  EXPECT_EQ(Run({"down", "--all"}).code, 0);
  EXPECT_EQ(Run({"down"}).code, 3);
}

TEST_F(CliTest, WhatADeadClusterLeftIsRemovedByTheNextUp) {
  const json up = RunJson({"up", "--detach", "--workers", "2"});
  std::vector<pid_t> pids = up["worker_pids"];
  pids.push_back(up["controller_pid"]);
  for (pid_t pid : pids) kill(pid, SIGKILL);
  const Deadline deadline = Deadline::After(kPatience);
  while (Run({"status", "--name", "lockstep"}).output.find("is dead") == std::string::npos) {
    ASSERT_FALSE(deadline.Expired());
  }
  const json again = RunJson({"up", "--detach", "--workers", "2"});
  EXPECT_NE(again["controller_pid"], up["controller_pid"]);
  EXPECT_EQ(RunJson({"status"})["ready"], true);
}

TEST_F(CliTest, AForegroundClusterStopsAtInterrupt) {
  const std::string log = scratch_ + "/up.log";
  StatusOr<ChildProcess> up = Spawn({"up", "--workers", "2", "--output", "json"}, log);
  ASSERT_TRUE(up.ok()) << up.status();
  const Deadline deadline = Deadline::After(kPatience);
  while (ReadFile(log).find("\n}\n") == std::string::npos) {
    ASSERT_TRUE(up->Running()) << ReadFile(log);
    ASSERT_FALSE(deadline.Expired());
    support::LetOthersWork();
  }
  const json announced = json::parse(ReadFile(log));
  EXPECT_EQ(Run({"status"}).code, 0);
  up->Signal(SIGINT);
  const auto status = up->Wait(deadline);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_TRUE(status->ok()) << status->Describe() << ReadFile(log);
  EXPECT_FALSE(IsRunning(announced["controller_pid"]));
  EXPECT_FALSE(fs::exists(RunDirectory("lockstep")));
}

TEST_F(CliTest, AnInterruptedStartLeavesNothing) {
  // Workers that never join.
  worker_ = scratch_ + "/hang";
  std::ofstream(worker_) << "#!/bin/sh\n"
                            "echo $$ > \"$0.$$.new\" && mv \"$0.$$.new\" \"$0.$$.pid\"\n"
                            "exec sleep 600\n";
  fs::permissions(worker_, fs::perms::owner_all);
  const std::string log = NewLog();
  StatusOr<ChildProcess> up = Spawn({"up", "--workers", "2", "--timeout", "600"}, log);
  ASSERT_TRUE(up.ok()) << up.status();
  const Deadline deadline = Deadline::After(kPatience);
  std::vector<pid_t> workers;
  while (workers.size() < 2) {
    ASSERT_TRUE(up->Running()) << ReadFile(log);
    ASSERT_FALSE(deadline.Expired());
    workers.clear();
    for (const auto& entry : fs::directory_iterator(scratch_)) {
      if (entry.path().extension() != ".pid") continue;
      workers.push_back(std::stoi(ReadFile(entry.path().string())));
    }
    support::LetOthersWork();
  }
  up->Signal(SIGINT);
  const auto status = up->Wait(deadline);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->code, 130) << status->Describe() << ReadFile(log);
  EXPECT_NE(ReadFile(log).find("interrupted while the cluster was starting"), std::string::npos)
      << ReadFile(log);
  for (pid_t worker : workers) EXPECT_FALSE(IsRunning(worker));
  EXPECT_FALSE(fs::exists(RunDirectory("lockstep")));
}

TEST_F(CliTest, ClustersMayBeNamedLikeFilesOfTheirs) {
  for (const char* name : {"a", "a.json", "a.lock"}) {
    ASSERT_EQ(Run({"up", "--detach", "--workers", "1", "--name", name}).code, 0) << name;
  }
  for (const char* name : {"a", "a.json", "a.lock"}) {
    EXPECT_EQ(RunJson({"status", "--name", name})["cluster"], name);
  }
  EXPECT_EQ(Run({"down", "a.json"}).code, 0);
  EXPECT_EQ(Run({"down", "--all"}).code, 0);
}

TEST_F(CliTest, AnUnreadableRecordIsShownAndTheOthersAreFound) {
  ASSERT_EQ(Run({"up", "--detach", "--workers", "1", "--name", "good"}).code, 0);
  std::ofstream(RecordPath("bad")) << "junk";
  const Result status = Run({"status"});
  EXPECT_EQ(status.code, 0) << status.output;
  EXPECT_NE(status.output.find("warning: " + RecordPath("bad") + " is no record of a cluster"),
            std::string::npos)
      << status.output;
  EXPECT_EQ(Run({"down", "bad"}).code, 1);
  const Result down = Run({"down", "--all"});
  EXPECT_EQ(down.code, 1) << "whatever the record was of may still run";
  EXPECT_NE(down.output.find("stopped   good"), std::string::npos) << down.output;
  EXPECT_NE(down.output.find(RecordPath("bad")), std::string::npos) << down.output;
  fs::remove(RecordPath("bad"));
  EXPECT_EQ(Run({"down", "--all"}).code, 0);
}

TEST_F(CliTest, AForegroundClusterCanBeStoppedByDown) {
  const std::string log = scratch_ + "/up.log";
  StatusOr<ChildProcess> up = Spawn({"up", "--workers", "2", "--output", "json"}, log);
  ASSERT_TRUE(up.ok()) << up.status();
  const Deadline deadline = Deadline::After(kPatience);
  while (ReadFile(log).find("\n}\n") == std::string::npos) {
    ASSERT_TRUE(up->Running()) << ReadFile(log);
    ASSERT_FALSE(deadline.Expired());
    support::LetOthersWork();
  }
  EXPECT_EQ(Run({"down"}).code, 0);
  const auto status = up->Wait(deadline);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_TRUE(status->ok()) << status->Describe() << ReadFile(log);
}

TEST_F(CliTest, ARunDirectoryMustBeEmpty) {
  const std::string directory = scratch_ + "/own";
  ASSERT_EQ(mkdir(directory.c_str(), 0700), 0);
  std::ofstream(directory + "/precious") << "x";
  EXPECT_EQ(Run({"up", "--detach", "--workers", "1", "--run-dir", directory}).code, 2);
  EXPECT_TRUE(fs::exists(directory + "/precious"));
  fs::remove(directory + "/precious");
  EXPECT_EQ(RunJson({"up", "--detach", "--workers", "1", "--run-dir", directory})["run_dir"],
            directory);
  EXPECT_EQ(Run({"down"}).code, 0);
}

TEST_F(CliTest, AllExampleProgramsHold) {
  // Runfiles are links, and a module is where its link leads to.
  const std::string modules =
      fs::canonical(root_ + "/examples/tensor_parallel/transformer_module.so").parent_path();
  for (const char* name : {"programs/hello", "programs/collectives", "programs/module",
                           "plans/gradients", "plans/perceptron"}) {
    const json report = RunJson(
        {"run", root_ + "/examples/" + name + ".yaml", "--embedded", "--module-path", modules});
    EXPECT_EQ(report["ok"], true) << report;
    EXPECT_GE(report["expectations"].size(), 1u);
  }
}

TEST_F(CliTest, APlanIsAnalyzedOnACluster) {
  ASSERT_EQ(Run({"up", "--detach", "--workers", "4"}).code, 0);
  const std::string gradients = root_ + "/examples/plans/gradients.yaml";
  const json report = RunJson({"plan", "analyze", gradients, "--times", "5"});
  EXPECT_EQ(report["executions"], 5);
  EXPECT_GT(report["median_us"], 0);
  ASSERT_EQ(report["ranks"].size(), 4u);
  const json& steps = report["ranks"][2]["steps"];
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0]["kind"], "reduce-scatter");
  EXPECT_EQ(steps[0]["where"], "gradients.yaml:20");
  for (const json& step : steps) EXPECT_GT(step["measured_us"], 0) << step;
  EXPECT_EQ(steps[1]["predicted_us"], nullptr);
  const Result table = Run({"plan", "analyze", gradients, "--rank", "3"});
  EXPECT_EQ(table.code, 0);
  EXPECT_THAT(table.output, AllOf(HasSubstr("20 executions on 4 ranks: "),
                                  HasSubstr("Steps of rank 3"), HasSubstr("lockstep.cast")));
  EXPECT_EQ(Run({"down"}).code, 0);
}

TEST_F(CliTest, FunctionsOfAnAnalyzedPlanComeFromModules) {
  const std::string modules =
      fs::canonical(root_ + "/examples/tensor_parallel/transformer_module.so").parent_path();
  const std::string perceptron = root_ + "/examples/plans/perceptron.yaml";
  // Which one, its steps say.
  const json report = RunJson(
      {"plan", "analyze", perceptron, "--embedded", "--module-path", modules, "--times", "1"});
  EXPECT_EQ(report["ranks"][0]["steps"].size(), 4u);
  const std::string layers = root_ + "/examples/plans/layers.yaml";
  const Result nowhere = Run({"plan", "analyze", layers, "--embedded"});
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_THAT(nowhere.output, HasSubstr("the plan calls layer, which is not built in"));
  const Result missing = Run({"plan", "analyze", layers, "--embedded", "--module-path", modules,
                              "--module", "transformer_module.so"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.output, HasSubstr("has no function \"layer\""));
  EXPECT_EQ(Run({"plan", "analyze", perceptron, "--embedded", "--rank", "4"}).code, 2);
  EXPECT_EQ(Run({"plan", "analyze", perceptron, "--embedded", "--times", "90000", "--module-path",
                 modules})
                .code,
            2);
}

TEST_F(CliTest, APlanIsExplainedToScripts) {
  const std::string layers = root_ + "/examples/plans/layers.yaml";
  const json plan = RunJson({"plan", "explain", layers, "--rank", "2", "--simulate"});
  EXPECT_EQ(plan["file"], layers);
  EXPECT_EQ(plan["reshards"].size(), 4u);
  EXPECT_EQ(plan["rank"]["rank"], 2);
  EXPECT_EQ(plan["rank"]["steps"].size(), plan["memory"][0]["steps"]);
  EXPECT_EQ(plan["simulation"]["ranks"], 4);
  EXPECT_EQ(Run({"plan", "explain", layers, "--rank", "7", "--output", "json"}).code, 2);
}

TEST_F(CliTest, APlanThatARepeatExecutesSeesEachNewInput) {
  const std::string program = WriteProgram(R"(workers: 2
plan:
  meshes: {all: {ranks: 0-1}}
  layouts:
    parts: {shape: [4], mesh: all, placements: [partial(sum)]}
    whole: {shape: [4], mesh: all, placements: [replicate]}
  inputs: {x: parts}
  steps:
    - {reshard: x, to: whole, as: y}
  outputs: [y]
steps:
  - {full: [4], value: 1, as: x}
  - repeat: 3
    steps:
      - {execute: plan, outputs: {y: sum}}
      - {allreduce: sum, op: sum, as: x}
  - {expect: x, value: 64}
  - {full: [3], value: 1, as: wrong}
  - {execute: plan, inputs: {x: wrong}}
)");
  const Result result = Run({"run", program, "--embedded"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.output.find("not as expected"), std::string::npos) << result.output;
  EXPECT_THAT(result.output, HasSubstr(program + ":19: step 5 (execute plan): rank "));
  EXPECT_THAT(result.output, HasSubstr("this rank's tile of input \"x\" is float32[4]"));
}

TEST_F(CliTest, AFailedExpectationIsExitCode4AndTheProgramGoesOn) {
  const std::string program = WriteProgram(
      "steps:\n"
      "  - {full: [2], value: 1, as: x}\n"
      "  - {expect: x, value: 2}\n"
      "  - {print: x}\n");
  const json report = RunJson({"run", program, "--embedded", "--workers", "2"}, 4);
  EXPECT_EQ(report["ok"], false);
  EXPECT_EQ(report["expectations"][0]["line"], 3);
  EXPECT_EQ(report["expectations"][0]["failures"].size(), 2u);
  EXPECT_EQ(report["prints"].size(), 1u);
}

TEST_F(CliTest, AnErrorNamesFileLineAndStep) {
  const std::string program = WriteProgram(
      "steps:\n"
      "  - {full: [2], value: 1, as: x}\n"
      "  - {call: lockstep.fail, args: [text:oops, 1]}\n"
      "  - {print: x}\n");
  const Result result = Run({"run", program, "--embedded", "--workers", "2"});
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.output.find(program + ":3: step 2 (call lockstep.fail): "), std::string::npos)
      << result.output;
  EXPECT_NE(result.output.find("rank 1"), std::string::npos) << result.output;
  EXPECT_EQ(result.output.find("float32"), std::string::npos) << "nothing runs after an error";
}

TEST_F(CliTest, NothingIsExecutedIfTheFileIsWrong) {
  const std::string program = WriteProgram(
      "steps:\n"
      "  - {full: [2], value: 1, as: x}\n"
      "  - {print: x}\n"
      "  - {print: y}\n");
  const Result result = Run({"run", program, "--embedded"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.output.find("float32"), std::string::npos);
  EXPECT_NE(result.output.find(program + ":4: step 3 (print y): "), std::string::npos)
      << result.output;
  EXPECT_EQ(Run({"run", "--check", program}).code, 2);
}

TEST_F(CliTest, ArgumentsKeepTheirTypes) {
  const auto echo = [this](const std::string& argument) {
    return RunJson({"call", "lockstep.identity", argument, "--embedded", "--workers", "1"})[0].at(
        "value");
  };
  EXPECT_EQ(echo("-3"), -3);
  EXPECT_EQ(echo("0.5"), 0.5);
  EXPECT_EQ(echo("true"), true);
  EXPECT_EQ(echo("none"), nullptr);
  EXPECT_EQ(echo("\"3\""), "3");
  EXPECT_EQ(echo("[2, 3]"), (json{{"shape", {2, 3}}}));
  EXPECT_EQ(echo("[1, \"a\"]"), json::parse("[1, \"a\"]"));
  EXPECT_EQ(echo("bf16"), (json{{"dtype", "bfloat16"}}));
  EXPECT_EQ(echo("i8[2]=1,2")["tensor"]["data"], (json{1, 2}));
  EXPECT_EQ(echo("u64[1]=18446744073709551615")["tensor"]["data"][0], 18446744073709551615u);
}

TEST_F(CliTest, BehindTwoDashesNothingIsAnOption) {
  const Result result = Run(
      {"call", "--embedded", "--workers", "1", "lockstep.arange", "-3", "--", "-1", "1", "f64"});
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_NE(result.output.find("{-3, -2}"), std::string::npos) << result.output;
  EXPECT_EQ(Run({"call", "lockstep.identity", "--embedded", "--", "-inf"}).code, 0);
}

TEST_F(CliTest, WrongUsageIsExitCode2) {
  EXPECT_EQ(Run({}).code, 2);
  EXPECT_EQ(Run({"--help"}).code, 0);
  const Result unknown = Run({"stauts"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.output.find("did you mean \"status\"?"), std::string::npos);
  EXPECT_EQ(Run({"status", "--bogus"}).code, 2);
  EXPECT_EQ(Run({"call", "f", "treu"}).code, 2);
  EXPECT_EQ(Run({"call", "f", "18446744073709551615"}).code, 2);
  EXPECT_EQ(Run({"down", "../x"}).code, 2);
  EXPECT_EQ(Run({"status", "--name", "../x"}).code, 2);
  EXPECT_EQ(Run({"call", "lockstep.worker_rank", "--rank", "9", "--embedded"}).code, 2);
  EXPECT_EQ(Run({"up", "--name", "../x"}).code, 2);
  EXPECT_EQ(Run({"up", "--set", "colour=red"}).code, 2);
  EXPECT_EQ(Run({"run", "/nowhere.yaml"}).code, 2);
}

TEST_F(CliTest, NobodyThereIsExitCode3) {
  EXPECT_EQ(Run({"status"}).code, 3);
  EXPECT_EQ(Run({"call", "f", "--connect", "ipc://" + scratch_ + "/none", "--timeout", "0.1"}).code,
            3);
  EXPECT_EQ(Run({"down", "nobody"}).code, 3);
}

TEST_F(CliTest, ConfigurationFilesAreChecked) {
  const std::string good = WriteProgram("cluster: demo\nworkers: 2\n");
  const std::string bad = WriteProgram("cluster: demo\nworkers: many\n");
  EXPECT_EQ(Run({"config", "validate", good}).code, 0);
  const json reports = RunJson({"config", "validate", good, bad}, 2);
  EXPECT_EQ(reports[0]["kind"], "cluster");
  EXPECT_EQ(reports[0]["valid"], true);
  EXPECT_EQ(reports[1]["valid"], false);
  const std::string problem = reports[1]["problems"][0];
  EXPECT_NE(problem.find(bad + ":2"), std::string::npos) << problem;
  EXPECT_GT(RunJson({"config", "show", "--kind", "worker"})["worker"].size(), 3u);
}

TEST_F(CliTest, DoctorFindsNothingBadHereAndNamesWhatItLookedAt) {
  const json findings = RunJson({"doctor", "--set", "worker.arena_bytes=16MiB"});
  std::set<std::string> subjects;
  for (const json& finding : findings) {
    subjects.insert(finding["subject"]);
    EXPECT_NE(finding["verdict"], "bad") << finding;
  }
  for (const char* subject :
       {"lockstep-controller", "lockstep-worker", "shared memory", "memory limit", "open files",
        "locked memory", "clock", "network", "keys"}) {
    EXPECT_TRUE(subjects.contains(subject)) << subject;
  }
}

TEST_F(CliTest, DoctorSaysHowToMendAKeyThatOthersCanRead) {
  ASSERT_EQ(Run({"keys", "new", "me", "--out", scratch_ + "/me.key"}).code, 0);
  EXPECT_EQ(
      Run({"doctor", "--set", "worker.arena_bytes=16MiB", "--key", scratch_ + "/me.key"}).code, 0);
  fs::permissions(scratch_ + "/me.key", fs::perms::others_read, fs::perm_options::add);
  const Result bad =
      Run({"doctor", "--set", "worker.arena_bytes=16MiB", "--key", scratch_ + "/me.key"});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.output, HasSubstr("chmod 600 " + scratch_ + "/me.key"));
  EXPECT_THAT(bad.output, HasSubstr("1 thing to mend"));
}

TEST_F(CliTest, KeysAreMadeAllowedAndRevoked) {
  const std::string key = scratch_ + "/trainer.key";
  const std::string list = scratch_ + "/allowed_keys";
  const json made = RunJson({"keys", "new", "trainer", "--out", key});
  const std::string public_key = made["public_key"];
  EXPECT_EQ(ReadFile(key).find(public_key + "\nlsk_") != std::string::npos, true);
  EXPECT_EQ(RunJson({"keys", "show", key})["public_key"], public_key);
  EXPECT_EQ(Run({"keys", "new", "trainer", "--out", key}).code, 1) << "it is not overwritten";
  EXPECT_EQ(RunJson({"keys", "show", key})["public_key"], public_key);
  EXPECT_EQ(Run({"keys", "allow", "king", "trainer", public_key, "-f", list}).code, 2);
  EXPECT_EQ(Run({"keys", "allow", "client", "trainer", key, "-f", list}).code, 0);
  EXPECT_EQ(Run({"keys", "allow", "client", "trainer", key, "-f", list}).code, 1) << "twice";
  const json shown = RunJson({"keys", "show", list});
  ASSERT_EQ(shown.size(), 1u);
  EXPECT_EQ(shown[0]["role"], "client");
  EXPECT_EQ(shown[0]["public_key"], public_key);
  EXPECT_EQ(Run({"keys", "revoke", public_key, "-f", list}).code, 0);
  EXPECT_EQ(RunJson({"keys", "show", list})[0]["role"], "revoked");
}

// A user who may read a directory may lock it.
TEST_F(CliTest, NobodyHoldsUpThoseWhoChangeTheListByLockingItsDirectory) {
  const std::string list = scratch_ + "/allowed_keys";
  const int directory = open(scratch_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(directory, 0);
  ASSERT_EQ(flock(directory, LOCK_EX), 0);
  ASSERT_EQ(Run({"keys", "new", "me", "--out", scratch_ + "/me.key"}).code, 0);
  EXPECT_EQ(Run({"keys", "allow", "client", "me", scratch_ + "/me.key", "-f", list}).code, 0);
  EXPECT_EQ(Run({"keys", "revoke", scratch_ + "/me.key", "-f", list}).code, 0);
  close(directory);
}

}  // namespace
}  // namespace lockstep::cli
