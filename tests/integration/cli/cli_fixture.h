// What tests of the `lockstep` program share: running it, each test in a directory of its own.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "runtime/base/child_process.h"
#include "runtime/base/deadline.h"
#include "tests/support/files.h"

namespace lockstep::cli {

namespace fs = std::filesystem;
using nlohmann::json;
using support::ReadFile;

inline constexpr std::chrono::seconds kPatience{60};

struct Result {
  int code = -1;
  std::string output;  // standard output and error
};

// Each test has a runtime directory of its own, with a path that is short enough for sockets.
class CliTest : public ::testing::Test {
 protected:
  ~CliTest() override { Run({"down", "--all"}); }

  StatusOr<ChildProcess> Spawn(std::vector<std::string> arguments, const std::string& log) {
    arguments.insert(arguments.begin(), root_ + "/tools/cli/lockstep");
    return SpawnProgram(arguments, log);
  }
  // Any program, with what `lockstep` needs in its environment.
  StatusOr<ChildProcess> SpawnProgram(const std::vector<std::string>& argv,
                                      const std::string& log) {
    ChildOptions options;
    options.argv = argv;
    options.environment = Environment();
    options.log_path = log;
    return ChildProcess::Spawn(options);
  }
  std::vector<std::string> Environment() const {
    return {
        "XDG_RUNTIME_DIR=" + scratch_,
        "XDG_CACHE_HOME=" + scratch_ + "/cache",
        "LOCKSTEP_ENDPOINT=",
        "LOCKSTEP_CONTROLLER=" + root_ + "/services/controller/lockstep-controller",
        "LOCKSTEP_WORKER=" + worker_,
        "LOCKSTEP_REMOTE_WORKER=" + root_ + "/services/remote/lockstep-remote-worker",
        "LOCKSTEP_COMPILER=" + compiler_,
    };
  }

  Result Run(const std::vector<std::string>& arguments) {
    const std::string log = NewLog();
    return ResultOf(Spawn(arguments, log), log);
  }
  Result RunProgram(const std::vector<std::string>& argv) {
    const std::string log = NewLog();
    return ResultOf(SpawnProgram(argv, log), log);
  }
  std::string NewLog() { return scratch_ + "/output-" + std::to_string(runs_++); }

  Result ResultOf(StatusOr<ChildProcess> child, const std::string& log) {
    EXPECT_TRUE(child.ok()) << child.status();
    if (!child.ok()) return {};
    const auto status = child->Wait(Deadline::After(kPatience));
    EXPECT_TRUE(status.ok()) << status.status() << ReadFile(log);
    return {status.ok() && status->signal == 0 ? status->code : -1, ReadFile(log)};
  }

  json RunJson(std::vector<std::string> arguments, int code = 0) {
    arguments.insert(arguments.end(), {"--output", "json"});
    const Result result = Run(arguments);
    EXPECT_EQ(result.code, code) << result.output;
    // Errors follow the document, on standard error.
    const size_t error = result.output.find("\nlockstep: ");
    json document = json::parse(result.output.substr(0, error), nullptr, false);
    EXPECT_FALSE(document.is_discarded()) << result.output;
    return document;
  }

  std::string WriteProgram(const std::string& text) {
    const std::string path = scratch_ + "/program-" + std::to_string(runs_++) + ".yaml";
    std::ofstream(path) << text;
    return path;
  }

  std::string RunDirectory(const std::string& name) {
    return scratch_ + "/lockstep-" + std::to_string(getuid()) + "/run/" + name;
  }
  std::string RecordPath(const std::string& name) {
    return scratch_ + "/lockstep-" + std::to_string(getuid()) + "/records/" + name + ".json";
  }

  const std::string root_ = fs::current_path().string();
  std::string worker_ = root_ + "/services/worker/lockstep-worker";
  // A stand-in, which is there without MLIR, too.
  std::string compiler_ = root_ + "/tests/unit/runtime/fragment/testdata/fake_compiler";
  const support::ScratchDirectory directory_;
  const std::string scratch_ = directory_.path();
  int runs_ = 0;
};

// False for a zombie too: an orphan has ended before its new parent gets round to reaping it.
inline bool IsRunning(pid_t pid) {
  const std::string stat = ReadFile("/proc/" + std::to_string(pid) + "/stat");
  const size_t command_end = stat.rfind(") ");
  return command_end != std::string::npos && stat[command_end + 2] != 'Z';
}

}  // namespace lockstep::cli
