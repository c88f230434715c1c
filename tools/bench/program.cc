#include "tools/bench/program.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "runtime/base/child_process.h"
#include "runtime/base/deadline.h"

namespace lockstep::bench {
namespace {

// How long a program may take to end after SIGTERM.
constexpr std::chrono::seconds kTermPatience{3};
constexpr size_t kTailBytes = 600;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string Tail(const std::string& text) {
  if (text.empty()) return "; it printed nothing";
  if (text.size() <= kTailBytes) return ":\n" + text;
  return ":\n..." + text.substr(text.size() - kTailBytes);
}

std::string Folder(pid_t pid) { return "/proc/" + std::to_string(pid); }

// The sum of the lines "LABEL 123 kB" with these labels of a file of the process.
StatusOr<size_t> BytesIn(pid_t pid, const std::string& name,
                         const std::vector<std::string_view>& labels) {
  std::ifstream file(Folder(pid) + "/" + name);
  size_t found = 0;
  size_t sum_kib = 0;
  for (std::string label; file >> label;) {
    size_t kib = 0;
    if (std::find(labels.begin(), labels.end(), label) != labels.end() && file >> kib) {
      ++found;
      sum_kib += kib;
    }
    std::getline(file, label);
  }
  if (found == labels.size()) return sum_kib << 10;
  return NotFound("process ", pid, " does not run, or has no ", labels.front(), " in ", name);
}

}  // namespace

StatusOr<std::string> RunProgram(const ProgramRun& run) {
  static std::atomic<int> runs = 0;
  const std::string path = run.scratch + "/output-" + std::to_string(++runs);
  LOCKSTEP_ASSIGN_OR_RETURN(
      ChildProcess child,
      ChildProcess::Spawn({.argv = run.argv, .environment = run.environment, .log_path = path}));
  const StatusOr<ExitStatus> status = child.Wait(Deadline::After(run.timeout));
  if (status.status().code() == StatusCode::kDeadlineExceeded) {
    (void)child.Terminate(Deadline::After(kTermPatience));
    return DeadlineExceeded(run.argv[0], " has not ended within ", run.timeout.count(), " s",
                            Tail(ReadFile(path)));
  }
  LOCKSTEP_RETURN_IF_ERROR(status.status());
  std::string output = ReadFile(path);
  if (!status->ok()) return Unavailable(run.argv[0], " ", status->Describe(), Tail(output));
  return output;
}

StatusOr<Numbers> RunRival(const ProgramRun& run) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string output, RunProgram(run));
  Numbers numbers;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    double value = 0;
    if (words >> name >> value && words.eof()) numbers[name] = value;
  }
  return numbers;
}

std::string UnpackedFolder(const std::string& name) {
  const char* const home = std::getenv("HOME");
  const char* const deps = std::getenv("LOCKSTEP_DEPS");
  return (deps != nullptr ? std::string(deps)
                          : std::string(home == nullptr ? "" : home) + "/.cache/lockstep/deps") +
         "/" + name;
}

StatusOr<double> Get(const Numbers& numbers, const std::string& name) {
  const auto found = numbers.find(name);
  if (found == numbers.end()) return NotFound("the rival printed no ", name);
  return found->second;
}

StatusOr<std::chrono::duration<double>> CpuTime(pid_t pid) {
  std::error_code error;
  std::filesystem::directory_iterator task(Folder(pid) + "/task", error);
  uint64_t nanos = 0;
  for (; !error && task != std::filesystem::directory_iterator(); task.increment(error)) {
    std::ifstream file(task->path() / "schedstat");
    uint64_t of_thread = 0;
    // A thread that has just ended has no file any more.
    if (file >> of_thread) nanos += of_thread;
  }
  if (error) return NotFound("process ", pid, ": ", error.message());
  return std::chrono::duration<double>(static_cast<double>(nanos) * 1e-9);
}

StatusOr<size_t> ResidentBytes(pid_t pid) { return BytesIn(pid, "status", {"VmRSS:"}); }

StatusOr<size_t> AddedBytes(pid_t pid) {
  return BytesIn(pid, "smaps_rollup", {"Pss_Anon:", "Pss_File:"});
}

}  // namespace lockstep::bench
