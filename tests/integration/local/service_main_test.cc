// The two programs, as an operator meets them: exit codes, messages, signals.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "runtime/base/child_process.h"
#include "runtime/control/keys/key_file.h"
#include "tests/integration/process_watch.h"
#include "tests/support/files.h"
#include "tests/support/patience.h"

namespace lockstep::local {
namespace {

using namespace std::chrono_literals;
using support::ScopedTmpDir;

class ServiceMainTest : public ::testing::Test {
 protected:
  std::string Log() const {
    std::ostringstream text;
    text << std::ifstream(LogPath()).rdbuf();
    return text.str();
  }
  std::string LogPath() const { return tmp_.path() + "/log"; }

  StatusOr<ChildProcess> Start(const std::string& name, std::vector<std::string> arguments,
                               int input_fd = -1) {
    const bool worker = name == "lockstep-worker";
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string program,
                              FindProgram(name, worker ? "LOCKSTEP_WORKER" : "LOCKSTEP_CONTROLLER",
                                          worker ? "services/worker" : "services/controller"));
    arguments.insert(arguments.begin(), program);
    return ChildProcess::Spawn(
        {.argv = arguments, .environment = {}, .log_path = LogPath(), .input_fd = input_fd});
  }

  int Run(const std::string& name, std::vector<std::string> arguments) {
    auto child = Start(name, std::move(arguments));
    EXPECT_TRUE(child.ok()) << child.status();
    const auto status = child->Wait(Deadline::After(20s));
    EXPECT_TRUE(status.ok()) << status.status();
    EXPECT_EQ(status->signal, 0);
    return status->code;
  }

  std::vector<std::string> ControllerArguments() const {
    return {"--set",
            "client_endpoint=ipc://" + tmp_.path() + "/client",
            "--set",
            "worker_endpoint=ipc://" + tmp_.path() + "/worker",
            "--set",
            "liveness_endpoint=ipc://" + tmp_.path() + "/liveness",
            "--write-endpoints",
            tmp_.path() + "/endpoints"};
  }
  bool WaitForFile(const std::string& path) const {
    return WaitUntil([&path] { return std::filesystem::exists(path); });
  }
  bool WaitForLog(const std::string& part) const {
    return WaitUntil([this, &part] { return Log().find(part) != std::string::npos; });
  }
  static bool WaitUntil(const std::function<bool()>& holds) {
    const Deadline deadline = Deadline::After(20s);
    while (!holds()) {
      if (deadline.Expired()) return false;
      support::LetOthersWork();
    }
    return true;
  }

  support::ScopedTmpDir tmp_;
};

TEST_F(ServiceMainTest, HelpAndVersionEndWell) {
  for (const char* name : {"lockstep-controller", "lockstep-worker"}) {
    EXPECT_EQ(Run(name, {"--help"}), 0);
    EXPECT_EQ(Run(name, {"--version"}), 0);
  }
  for (const char* part : {"Examples:", "heartbeat_interval", "module_path", "Exit codes"}) {
    EXPECT_NE(Log().find(part), std::string::npos) << Log();
  }
}

TEST_F(ServiceMainTest, MistakesOfUsageExitWithTwoAndSayWhatIsWrong) {
  EXPECT_EQ(Run("lockstep-controller", {"--bogus"}), 2);
  EXPECT_EQ(Run("lockstep-controller", {}), 2);
  EXPECT_EQ(Run("lockstep-worker", {"--config", "/nonexistent.yaml"}), 2);
  EXPECT_EQ(Run("lockstep-worker", {"--set", "rnak=1"}), 2);
  for (const char* part : {"--bogus", "client_endpoint: missing, but required",
                           "/nonexistent.yaml: cannot be read", "did you mean \"rank\"?"}) {
    EXPECT_NE(Log().find(part), std::string::npos) << part << " in " << Log();
  }
}

TEST_F(ServiceMainTest, AWorkerWithoutAControllerFails) {
  EXPECT_EQ(Run("lockstep-worker", {"--set", "controller_endpoint=ipc://" + tmp_.path() + "/none",
                                    "--set", "join_timeout=200ms", "--set", "arena_bytes=16MiB"}),
            1);
}

// As over ssh: one input that brings the configuration, and then stays open.
TEST_F(ServiceMainTest, TheStandardInputConfiguresTheControllerAndItsEndStopsIt) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  std::string text = "...\n";
  for (const char* name : {"client", "worker", "liveness"}) {
    text = std::string(name) + "_endpoint: ipc://" + tmp_.path() + "/" + name + "\n" + text;
  }
  ASSERT_EQ(write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  auto controller =
      Start("lockstep-controller",
            {"--config", "-", "--die-with-input", "--write-endpoints", tmp_.path() + "/endpoints"},
            ends[0]);
  close(ends[0]);
  ASSERT_TRUE(controller.ok()) << controller.status();
  ASSERT_TRUE(WaitForFile(tmp_.path() + "/endpoints")) << Log();
  EXPECT_TRUE(controller->Running());
  close(ends[1]);
  const auto status = controller->Wait(Deadline::After(20s));
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_TRUE(status->ok()) << status->Describe() << Log();
  EXPECT_NE(Log().find("the standard input has ended"), std::string::npos) << Log();
}

TEST_F(ServiceMainTest, HealthIsAskedOfTheOneThatRuns) {
  std::vector<std::string> arguments = ControllerArguments();
  arguments.insert(arguments.end(), {"--set", "metrics_endpoint=http://127.0.0.1:*"});
  auto controller = Start("lockstep-controller", arguments);
  ASSERT_TRUE(controller.ok()) << controller.status();
  ASSERT_TRUE(WaitForFile(tmp_.path() + "/endpoints")) << Log();
  std::ifstream endpoints(tmp_.path() + "/endpoints");
  const std::string text{std::istreambuf_iterator<char>(endpoints), {}};
  const size_t begin = text.find("http://");
  ASSERT_NE(begin, std::string::npos) << text;
  const std::string metrics = text.substr(begin, text.find_first_of("\"'\n", begin) - begin);

  arguments.back() = "metrics_endpoint=" + metrics;
  arguments.push_back("--check-health");
  EXPECT_EQ(Run("lockstep-controller", arguments), 0) << Log();
  controller->Signal(SIGTERM);
  ASSERT_TRUE(controller->Wait(Deadline::After(20s)).ok());
  EXPECT_EQ(Run("lockstep-controller", arguments), 1);
  EXPECT_NE(Log().find("no answer from " + metrics + "/healthz"), std::string::npos) << Log();
}

TEST_F(ServiceMainTest, ProblemsOfTheStandardInputNameIt) {
  EXPECT_EQ(Run("lockstep-worker", {"--config", "-"}), 2);
  EXPECT_NE(Log().find("standard input: controller_endpoint: missing, but required"),
            std::string::npos)
      << Log();
}

TEST_F(ServiceMainTest, SignalsStopTheControllerInOrder) {
  for (const int signal : {SIGTERM, SIGINT}) {
    std::filesystem::remove(tmp_.path() + "/endpoints");
    auto controller = Start("lockstep-controller", ControllerArguments());
    ASSERT_TRUE(controller.ok()) << controller.status();
    ASSERT_TRUE(WaitForFile(tmp_.path() + "/endpoints")) << Log();
    controller->Signal(signal);
    const auto status = controller->Wait(Deadline::After(20s));
    ASSERT_TRUE(status.ok()) << status.status();
    EXPECT_TRUE(status->ok()) << status->Describe() << Log();
  }
}

// Its controller's host is looked up for as long as `join_timeout`.
TEST_F(ServiceMainTest, AWorkerThatWaitsForANameStopsInOrder) {
  const std::string host = std::string(64, 'x') + ".invalid";  // too long to be looked up
  const control::KeyPair pair = control::NewKeyPair();
  const std::string key = tmp_.path() + "/worker.key";
  ASSERT_EQ(control::ReplaceKeyFile(key, pair, "worker"), OkStatus());
  auto worker = Start("lockstep-worker",
                      {"--set", "controller_endpoint=tcp://" + host + ":7401", "--set",
                       "key=" + key, "--set", "controller_key=" + pair.public_key.Text(), "--set",
                       "join_timeout=10min", "--set", "rank=0", "--set", "arena_bytes=16MiB"});
  ASSERT_TRUE(worker.ok()) << worker.status();
  ASSERT_TRUE(WaitForLog("\"" + host + "\" cannot be resolved")) << Log();
  worker->Signal(SIGTERM);
  const auto status = worker->Wait(Deadline::After(20s));
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_TRUE(status->ok()) << status->Describe() << Log();
}

TEST_F(ServiceMainTest, AnEndpointInUseFails) {
  auto controller = Start(
      "lockstep-controller",
      {"--set", "client_endpoint=tcp://127.0.0.1:*", "--set", "worker_endpoint=tcp://127.0.0.1:*",
       "--set", "liveness_endpoint=tcp://127.0.0.1:*", "--set",
       "metrics_endpoint=http://127.0.0.1:*", "--write-endpoints", tmp_.path() + "/endpoints"});
  ASSERT_TRUE(controller.ok()) << controller.status();
  ASSERT_TRUE(WaitForFile(tmp_.path() + "/endpoints")) << Log();
  // The file that it wrote is a configuration: of a second controller at the same ports.
  EXPECT_EQ(Run("lockstep-controller", {"--config", tmp_.path() + "/endpoints"}), 1);
  EXPECT_NE(Log().find("in use"), std::string::npos) << Log();
  EXPECT_TRUE(controller->Terminate(Deadline::After(20s))->ok());
}

TEST_F(ServiceMainTest, AParentThatIsNoneIsRefused) {
  std::vector<std::string> arguments = ControllerArguments();
  arguments.insert(arguments.end(), {"--die-with-parent", "1"});
  if (getpid() == 1) GTEST_SKIP() << "process 1 is the parent here";
  EXPECT_EQ(Run("lockstep-controller", arguments), 1);
  EXPECT_NE(Log().find("is not the parent"), std::string::npos) << Log();
}

}  // namespace
}  // namespace lockstep::local
