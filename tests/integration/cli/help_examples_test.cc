// Every example in the help of every command works as it stands there: they are read from the help
// itself, so that a new one is tested without further ado.
#include <signal.h>

#include <functional>
#include <optional>
#include <utility>

#include "tests/integration/cli/cli_fixture.h"
#include "tests/integration/cli/terminal.h"
#include "tests/support/patience.h"
#include "tools/cli/npy.h"

namespace lockstep::cli {
namespace {

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The first words of the lines of a section: "Subcommands:" and what is indented below it.
std::vector<std::string> Subcommands(const std::string& help) {
  std::vector<std::string> names;
  bool inside = false;
  for (const std::string& line : Lines(help)) {
    if (inside && line.starts_with("  ")) {
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
    } else {
      inside = line == "Subcommands:";
    }
  }
  return names;
}

// The commands below "Examples:", without the words that explain them, which stand apart.
std::vector<std::string> Examples(const std::string& help) {
  std::vector<std::string> examples;
  bool inside = false;
  for (const std::string& line : Lines(help)) {
    if (inside && line.starts_with("  ")) {
      examples.push_back(line.substr(2, line.find("   ", 2) - 2));
    } else {
      inside = line == "Examples:";
    }
  }
  return examples;
}

// `help` of a command and of all below it.
void Collect(const std::string& help, std::vector<std::string>& examples,
             const std::function<std::string(const std::string&)>& help_of) {
  const std::vector<std::string> own = Examples(help);
  EXPECT_FALSE(own.empty()) << "no examples:\n" << help;
  examples.insert(examples.end(), own.begin(), own.end());
  for (const std::string& name : Subcommands(help)) {
    Collect(help_of(name), examples,
            [&](const std::string& below) { return help_of(name + " " + below); });
  }
}

// Whether it starts or ends clusters, or counts what there was since the start of one. The other
// examples share a cluster.
bool NeedsClustersOfItsOwn(const std::string& example) {
  return example.starts_with("lockstep up") || example.starts_with("lockstep down") ||
         example.starts_with("lockstep sessions end");
}

class HelpExamplesTest : public CliTest {
 protected:
  // The files that the examples speak of, in a directory to run them in.
  void SetUp() override {
    work_ = scratch_ + "/work";
    fs::create_directories(work_ + "/bin");
    fs::create_directories(work_ + "/etc");
    fs::create_directories(work_ + "/build/modules");
    fs::create_directories(work_ + "/examples");
    fs::create_directory_symlink(root_ + "/examples/programs", work_ + "/examples/programs");
    fs::create_directory_symlink(root_ + "/examples/plans", work_ + "/examples/plans");
    fs::copy(root_ + "/examples/programs/hello.yaml", work_ + "/program.yaml");
    fs::copy(fs::canonical(root_ + "/tests/unit/runtime/module/testdata/test_module.so"),
             work_ + "/build/modules/libmath.so");
    std::ofstream(work_ + "/cluster.yaml") << "workers: 2\nworker: {arena_bytes: 64MiB}\n";
    std::ofstream(work_ + "/etc/worker.yaml") << "controller_endpoint: ipc:///run/worker.sock\n";
    std::ofstream(work_ + "/power.mlir")
        << "func.func @power(%n: i64, %x: tensor<?xf64>) -> tensor<?xf64>\n";
    ASSERT_EQ(WriteNpy(work_ + "/data.npy", HostTensor::Of<double>({4}, {1, 2, 3, 4})), OkStatus());
    // Behind everything in PATH: stands in where the real one is not installed.
    std::ofstream(work_ + "/bin/jq") << "#!/bin/sh\nexec cat\n";
    fs::permissions(work_ + "/bin/jq", fs::perms::owner_all);
  }

  std::vector<std::string> Shell(const std::string& line) const {
    return {
        "/bin/bash", "-o", "pipefail", "-c",
        "cd " + work_ + " && PATH=" + root_ + "/tools/cli:$PATH:" + work_ + "/bin && exec " + line};
  }

  // The one cluster that examples find, whichever way they look for it. Returns its endpoint.
  std::string StartDemo() {
    return RunJson({"up", "--detach", "--workers", "2", "--name", "demo", "--module-path",
                    work_ + "/build/modules", "--set", "worker.arena_bytes=64MiB"})["endpoint"];
  }

  // A cluster in the foreground: ready, and then ^C.
  void RunForeground(const std::string& example) {
    const std::string log = NewLog();
    StatusOr<ChildProcess> up = SpawnProgram(Shell(example), log);
    ASSERT_TRUE(up.ok()) << up.status();
    const Deadline deadline = Deadline::After(kPatience);
    while (ReadFile(log).find("press ^C") == std::string::npos) {
      ASSERT_TRUE(up->Running()) << ReadFile(log);
      ASSERT_FALSE(deadline.Expired()) << ReadFile(log);
      support::LetOthersWork();
    }
    up->Signal(SIGINT);
    const auto status = up->Wait(deadline);
    ASSERT_TRUE(status.ok()) << status.status();
    EXPECT_TRUE(status->ok()) << status->Describe() << '\n' << ReadFile(log);
  }

  // In a terminal, until q.
  void RunInTerminal(const std::string& example) {
    Terminal terminal(Shell(example),
                      {"XDG_RUNTIME_DIR=" + scratch_, "LOCKSTEP_ENDPOINT=", "TERM=xterm"}, 80, 24);
    const Deadline deadline = Deadline::After(kPatience);
    EXPECT_TRUE(terminal.ReadUntil([&] { return !terminal.Picture().empty(); }, deadline));
    terminal.Type("q");
    EXPECT_EQ(terminal.Wait(deadline), 0) << terminal.output();
  }

  // One that the example can end, with the number that it names: the first of the cluster.
  StatusOr<ChildProcess> OpenSession() {
    StatusOr<ChildProcess> call = Spawn({"call", "lockstep.sleep", "60.0"}, NewLog());
    const Deadline deadline = Deadline::After(kPatience);
    while (RunJson({"sessions"}).empty() && !deadline.Expired()) support::LetOthersWork();
    return call;
  }

  // What goes on until ^C.
  void RunUntilInterrupt(const std::string& example) {
    const std::string log = NewLog();
    StatusOr<ChildProcess> child = SpawnProgram(Shell(example), log);
    ASSERT_TRUE(child.ok()) << child.status();
    const Deadline deadline = Deadline::After(kPatience);
    while (ReadFile(log).empty()) {
      ASSERT_TRUE(child->Running());
      ASSERT_FALSE(deadline.Expired());
      support::LetOthersWork();
    }
    child->Signal(SIGINT);
    const Result result = ResultOf(std::move(child), log);
    EXPECT_EQ(result.code, 0) << result.output;
  }

  std::string work_;
};

TEST_F(HelpExamplesTest, Work) {
  std::vector<std::string> examples;
  const auto help_of = [&](const std::string& command) {
    const Result help = RunProgram(Shell("lockstep " + command + " --help"));
    EXPECT_EQ(help.code, 0) << help.output;
    return help.output;
  };
  for (const std::string& line : Lines(help_of(""))) {
    EXPECT_LE(line.size(), 80u) << "what is looked at first fits into any terminal: " << line;
  }
  Collect(help_of(""), examples, help_of);
  EXPECT_GE(examples.size(), 20u);
  std::string endpoint;  // of the demo; empty: there is none
  for (std::string example : examples) {
    SCOPED_TRACE(example);
    EXPECT_TRUE(example.starts_with("lockstep "));
    const bool is_up = example.starts_with("lockstep up");
    if (NeedsClustersOfItsOwn(example) && !std::exchange(endpoint, "").empty()) {
      EXPECT_EQ(Run({"down", "--all"}).code, 0);
    }
    if (is_up && example.find("--detach") == std::string::npos) {
      RunForeground(example);
      continue;
    }
    if (!is_up) {
      const std::string some_endpoint = "tcp://127.0.0.1:7000";
      if (endpoint.empty()) endpoint = StartDemo();
      const size_t at = example.find(some_endpoint);
      if (at != std::string::npos) example.replace(at, some_endpoint.size(), endpoint);
    }
    std::optional<StatusOr<ChildProcess>> session;
    if (example.starts_with("lockstep sessions end")) session = OpenSession();
    if (example == "lockstep top") {
      RunInTerminal(example);
    } else if (example.find("--follow") != std::string::npos) {
      RunUntilInterrupt(example);
    } else {
      const Result result = RunProgram(Shell(example));
      EXPECT_EQ(result.code, 0) << result.output;
    }
    if (NeedsClustersOfItsOwn(example)) {
      EXPECT_EQ(Run({"down", "--all"}).code, 0);
      endpoint.clear();
    }
  }
  EXPECT_EQ(Run({"down", "--all"}).code, 0);
}

}  // namespace
}  // namespace lockstep::cli
