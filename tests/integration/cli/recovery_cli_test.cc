// What an operator does when something has died, or hangs.
#include <signal.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "runtime/base/deadline.h"
#include "tests/integration/cli/cli_fixture.h"

namespace lockstep::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class RecoveryCliTest : public CliTest {
 protected:
  // True once `done` is; false after a minute.
  template <typename Done>
  bool Eventually(Done done) {
    const Deadline deadline = Deadline::After(kPatience);
    while (!done()) {
      if (deadline.Expired()) return false;
      std::this_thread::sleep_for(20ms);
    }
    return true;
  }
  size_t CountSessions() { return RunJson({"sessions"}).size(); }
  // A program that keeps all ranks busy for long, in a session that the cluster knows.
  StatusOr<ChildProcess> RunForLong(const std::string& log) {
    return RunForLong({"call", "lockstep.sleep", "60.0"}, log);
  }
  // `arguments` are such a program's.
  StatusOr<ChildProcess> RunForLong(const std::vector<std::string>& arguments,
                                    const std::string& log) {
    StatusOr<ChildProcess> run = Spawn(arguments, log);
    EXPECT_TRUE(Eventually([&] {
      const json why = RunJson({"why"});
      return !why["culprits"].empty() && why["culprits"][0]["doing"]["what"] == "lockstep.sleep";
    }));
    return run;
  }
};

TEST_F(RecoveryCliTest, UpTakesOverWorkersWhoseControllerWasKilled) {
  const json up = RunJson({"up", "--detach", "--workers", "2"});
  kill(up["controller_pid"], SIGKILL);
  ASSERT_TRUE(Eventually([&] { return !IsRunning(up["controller_pid"]); }));
  const Result status = Run({"status"});
  EXPECT_EQ(status.code, 3) << status.output;
  EXPECT_THAT(status.output, HasSubstr("has ended, and 2 of its 2 workers still run"));
  EXPECT_THAT(status.output, HasSubstr("`lockstep up --name lockstep` starts it again"));
  // By its endpoint, as $LOCKSTEP_ENDPOINT gives it, it is the same cluster.
  const Result named = Run({"status", "--connect", up["endpoint"]});
  EXPECT_EQ(named.code, 3) << named.output;
  EXPECT_THAT(named.output, HasSubstr("`lockstep up --name lockstep` starts it again"));
  const json again = RunJson({"up", "--detach"});
  EXPECT_EQ(again["taken_over"], true);
  EXPECT_NE(again["controller_pid"], up["controller_pid"]);
  EXPECT_EQ(again["worker_pids"], up["worker_pids"]);
  EXPECT_EQ(again["endpoint"], up["endpoint"]);
  EXPECT_EQ(RunJson({"status"})["ready"], true);
  // Now it runs, and that is said with the process that lives.
  const Result third = Run({"up", "--detach"});
  EXPECT_EQ(third.code, 1);
  EXPECT_THAT(third.output, HasSubstr("already runs"));
  EXPECT_THAT(third.output, HasSubstr("pid " + again["controller_pid"].dump()));
  EXPECT_THAT(Run({"down", "--name", "lockstep"}).output, HasSubstr("2 workers in "));
}

TEST_F(RecoveryCliTest, UpStartsALostWorkerAgain) {
  const json up = RunJson({"up", "--detach", "--workers", "2"});
  kill(up["worker_pids"][1], SIGKILL);
  ASSERT_TRUE(Eventually([&] { return RunJson({"status"})["ready"] == false; }));
  EXPECT_THAT(Run({"status"}).output,
              HasSubstr("rank 1: run `lockstep up --name lockstep` to start again what has ended"));
  EXPECT_THAT(Run({"why"}).output, HasSubstr("run `lockstep up --name lockstep` to start"));
  const Result other = Run({"up", "--detach", "--workers", "3"});
  EXPECT_EQ(other.code, 2) << other.output;
  EXPECT_THAT(other.output, HasSubstr("still runs, with another configuration than this one"));
  EXPECT_THAT(other.output, HasSubstr("(workers: 3, not 2; "));
  EXPECT_THAT(other.output, HasSubstr("`lockstep down lockstep` first"));
  const json again = RunJson({"up", "--workers", "2", "--detach"});
  EXPECT_EQ(again["started_again"], json::array({"worker-1"}));
  EXPECT_EQ(again["hosts"], up["hosts"]);
  EXPECT_EQ(again["taken_over"], false);
  EXPECT_EQ(again["controller_pid"], up["controller_pid"]);
  EXPECT_EQ(again["worker_pids"][0], up["worker_pids"][0]);
  EXPECT_NE(again["worker_pids"][1], up["worker_pids"][1]);
  EXPECT_EQ(RunJson({"status"})["ready"], true);
  EXPECT_THAT(Run({"up", "--detach"}).output, HasSubstr("already runs"));
  kill(up["worker_pids"][0], SIGKILL);
  ASSERT_TRUE(Eventually([&] { return RunJson({"status"})["ready"] == false; }));
  EXPECT_EQ(RunJson({"up", "--name", "lockstep", "--detach"})["started_again"],
            json::array({"worker-0"}))
      << "whatever it was started with";
  EXPECT_THAT(Run({"down"}).output, HasSubstr(": 2 workers in "));
}

// All new sessions waited, while `status` said that the cluster was ready.
TEST_F(RecoveryCliTest, AFunctionThatOutlivesItsSessionIsNamedAndCanBeEnded) {
  const fs::path module =
      fs::canonical(root_ + "/tests/unit/runtime/module/testdata/test_module.so");
  const json up =
      RunJson({"up", "--detach", "--workers", "2", "--module-path", module.parent_path()});
  StatusOr<ChildProcess> call =
      Spawn({"call", "stay", "--module", module.filename().string()}, NewLog());
  ASSERT_TRUE(call.ok()) << call.status();
  ASSERT_TRUE(Eventually([&] {
    const json why = RunJson({"why"});
    return why["culprits"].size() == 2 && why["culprits"][1]["doing"]["what"] == "stay";
  }));
  call->Signal(SIGINT);
  ASSERT_TRUE(call->Wait(Deadline::After(kPatience)).ok());
  ASSERT_TRUE(Eventually([&] { return RunJson({"status"})["held_up"].size() == 1; }));
  EXPECT_THAT(Run({"status"}).output, HasSubstr("lockstep  held up"));
  EXPECT_EQ(Run({"status", "--exit-code"}).code, 5);
  const std::string pids = up["worker_pids"][0].dump() + " " + up["worker_pids"][1].dump();
  EXPECT_THAT(Run({"why"}).output,
              AllOf(HasSubstr("ranks 0, 1 still execute stay of session 1, which has ended"),
                    HasSubstr("to do    `kill -9 " + pids + "` on "),
                    HasSubstr("then run `lockstep up --name lockstep` to start")));
  const std::string log = NewLog();
  StatusOr<ChildProcess> next = Spawn({"call", "lockstep.worker_rank"}, log);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_TRUE(Eventually(
      [&] { return ReadFile(log).find("ranks 0, 1 still execute command") != std::string::npos; }));
  for (const json& pid : up["worker_pids"]) kill(pid, SIGKILL);
  ASSERT_TRUE(next->Wait(Deadline::After(kPatience)).ok());
  ASSERT_TRUE(Eventually([&] { return RunJson({"status"})["ready"] == false; }));
  EXPECT_EQ(RunJson({"up"})["started_again"], json::array({"worker-0", "worker-1"}));
  EXPECT_EQ(Run({"call", "lockstep.worker_rank"}).code, 0);
}

TEST_F(RecoveryCliTest, DownCountsTheWorkersThatItStops) {
  const json up = RunJson({"up", "--detach", "--workers", "3"});
  kill(up["worker_pids"][1], SIGKILL);
  ASSERT_TRUE(Eventually([&] { return !IsRunning(up["worker_pids"][1]); }));
  const Result down = Run({"down"});
  EXPECT_EQ(down.code, 0) << down.output;
  EXPECT_THAT(down.output, HasSubstr(": 2 workers in "));
  EXPECT_THAT(down.output, HasSubstr("; 1 had ended before"));
}

TEST_F(RecoveryCliTest, LogsSayThatARankIsAnotherProcessByNow) {
  const json up = RunJson({"up", "--detach", "--workers", "2"});
  EXPECT_THAT(Run({"logs", "--rank", "1"}).output, Not(HasSubstr("is now the process")));
  kill(up["worker_pids"][1], SIGKILL);
  ASSERT_TRUE(Eventually([&] { return RunJson({"status"})["ready"] == false; }));
  const std::string log = NewLog();
  StatusOr<ChildProcess> another =
      SpawnProgram({worker_, "--config", RunDirectory("lockstep") + "/worker-1.yaml"}, log);
  ASSERT_TRUE(another.ok()) << another.status();
  ASSERT_TRUE(Eventually([&] { return RunJson({"status"})["ready"] == true; })) << ReadFile(log);
  EXPECT_THAT(Run({"logs", "--rank", "1"}).output,
              AllOf(HasSubstr("warning: rank 1 is now the process "),
                    HasSubstr(std::to_string(another->pid()) + ", which `lockstep up` has not")));
  EXPECT_THAT(Run({"logs", "--rank", "0"}).output, Not(HasSubstr("is now the process")));
}

TEST_F(RecoveryCliTest, StatusAndWhyTellByTheirExitCodeWhereThatIsAskedFor) {
  const json up = RunJson({"up", "--detach", "--workers", "2"});
  EXPECT_EQ(Run({"status", "--exit-code"}).code, 0);
  EXPECT_EQ(Run({"why", "--exit-code"}).code, 0);
  kill(up["worker_pids"][1], SIGKILL);
  ASSERT_TRUE(Eventually([&] { return RunJson({"status"})["ready"] == false; }));
  EXPECT_EQ(Run({"status"}).code, 0);
  const Result status = Run({"status", "--exit-code"});
  EXPECT_EQ(status.code, 5);
  EXPECT_THAT(status.output, HasSubstr("lockstep: 1 of 2 workers ready"));
  const Result why = Run({"why", "--exit-code"});
  EXPECT_EQ(why.code, 5);
  EXPECT_THAT(why.output, HasSubstr("rank 1 is lost"));
}

TEST_F(RecoveryCliTest, InterruptedCallLeavesNoRankBusy) {
  RunJson({"up", "--detach", "--workers", "2"});
  const std::string log = NewLog();
  StatusOr<ChildProcess> call = RunForLong(log);
  ASSERT_TRUE(call.ok()) << call.status();
  call->Signal(SIGINT);
  const auto ended = call->Wait(Deadline::After(5s));
  ASSERT_TRUE(ended.ok()) << ended.status() << ReadFile(log);
  EXPECT_EQ(ended->code, 130) << ReadFile(log);
  EXPECT_THAT(ReadFile(log), HasSubstr("interrupted; the session's work is being aborted"));
  // Long before the lease of ten seconds, and the minute of the function.
  const Deadline soon = Deadline::After(5s);
  while (CountSessions() > 0 && !soon.Expired()) std::this_thread::sleep_for(20ms);
  EXPECT_EQ(CountSessions(), 0u);
}

TEST_F(RecoveryCliTest, SecondInterruptOfAProgramEndsItThoughTheControllerDoesNotAnswer) {
  const json up = RunJson({"up", "--detach", "--workers", "2"});
  const std::string program = WriteProgram("steps:\n  - {call: lockstep.sleep, args: [60.0]}\n");
  const std::string log = NewLog();
  StatusOr<ChildProcess> run = RunForLong({"run", program}, log);
  ASSERT_TRUE(run.ok()) << run.status();
  kill(up["controller_pid"], SIGSTOP);
  run->Signal(SIGINT);
  EXPECT_TRUE(Eventually(
      [&] { return ReadFile(log).find("^C again leaves it to its lease") != std::string::npos; }));
  run->Signal(SIGINT);
  const auto ended = run->Wait(Deadline::After(5s));
  kill(up["controller_pid"], SIGCONT);
  ASSERT_TRUE(ended.ok()) << ended.status() << ReadFile(log);
  EXPECT_EQ(ended->signal, SIGINT);
  // The first one was heard in the end, or else the session's process is seen to be gone.
  EXPECT_TRUE(Eventually([&] { return CountSessions() == 0; }));
}

TEST_F(RecoveryCliTest, OneSessionCanBeEnded) {
  RunJson({"up", "--detach", "--workers", "2"});
  const std::string log = NewLog();
  StatusOr<ChildProcess> call = RunForLong(log);
  ASSERT_TRUE(call.ok()) << call.status();
  const std::string session = RunJson({"sessions"})[0]["session"].dump();
  const Result end = Run({"sessions", "end", session, "--reason", "it blocks others"});
  EXPECT_EQ(end.code, 0) << end.output;
  const auto ended = call->Wait(Deadline::After(kPatience));
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->code, 1);
  EXPECT_THAT(ReadFile(log), HasSubstr("session " + session + " was ended: it blocks others"));
  const Result none = Run({"sessions", "end", "77"});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.output, HasSubstr("there is no session 77"));
}

TEST_F(RecoveryCliTest, AnEndpointOfAWorkerIsNoController) {
  RunJson({"up", "--detach", "--workers", "1"});
  const std::string bulk = "ipc://" + RunDirectory("lockstep") + "/bulk-0.sock";
  const Result status = Run({"status", "--connect", bulk});
  EXPECT_EQ(status.code, 3) << status.output;
  EXPECT_THAT(status.output, HasSubstr("a worker's bulk socket of Lockstep "));
  EXPECT_THAT(status.output, HasSubstr("answers at " + bulk + ", not a controller's client port"));
  EXPECT_THAT(status.output, HasSubstr("client port is ipc://" + RunDirectory("lockstep")));
  const Result nowhere = Run({"status", "--timeout", "30", "--connect", "ipc:///no/such.sock"});
  EXPECT_EQ(nowhere.code, 3);
  EXPECT_THAT(nowhere.output, HasSubstr("there is no socket /no/such.sock"));
}

TEST_F(RecoveryCliTest, KeysThatCannotBeReadAreWrongFiles) {
  const std::string key = scratch_ + "/my.key";
  ASSERT_EQ(Run({"keys", "new", "me", "--out", key}).code, 0);
  const std::string open = scratch_ + "/open.key";
  fs::copy_file(key, open);
  fs::permissions(open, fs::perms::owner_read | fs::perms::others_read);
  for (const std::string& path : {scratch_ + "/none.key", open}) {
    const Result status =
        Run({"status", "--connect", "tcp://127.0.0.1:1", "--key", path, "--controller-key", key});
    EXPECT_EQ(status.code, 2) << status.output;
    EXPECT_THAT(status.output, HasSubstr(path));
  }
}

TEST_F(RecoveryCliTest, HelpAndCompletionAreCommands) {
  EXPECT_EQ(Run({"help"}).output, Run({"--help"}).output);
  EXPECT_EQ(Run({"help", "keys", "new"}).output, Run({"keys", "new", "--help"}).output);
  EXPECT_EQ(Run({"help", "nonsense"}).code, 2);
  EXPECT_THAT(Run({"help", "--help"}).output, HasSubstr("Explain a command"));
  const Result bash = Run({"completion", "bash"});
  EXPECT_EQ(bash.code, 0);
  EXPECT_THAT(bash.output, HasSubstr("commands['/sessions']='end'"));
  EXPECT_EQ(Run({"completion", "csh"}).code, 2);
}

}  // namespace
}  // namespace lockstep::cli
