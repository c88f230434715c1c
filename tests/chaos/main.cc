// Rounds of chaos:
//   chaos [--hosts] [--rounds N] [--seed S] [--jobs J]
// Round i has the seed S + i; J rounds run at a time, in processes of their own. A seed that failed
// is repeated by `--rounds 1 --seed SEED`. With --hosts rounds take place on several hosts, which
// takes root.
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/chaos/round.h"
#include "tests/support/virtual_hosts.h"

namespace {

using lockstep::chaos::Plan;
using lockstep::chaos::PlanOf;
using lockstep::chaos::PlanOnHosts;
using lockstep::support::VirtualHosts;

// A round that takes longer hangs: its process is ended, which leaves a core or a sanitizer's
// report.
constexpr unsigned kLongestRoundSeconds = 120;

// What a job exits with that cannot have hosts.
constexpr int kSkipped = 77;

std::string running;  // the round's description, for the report that it hangs

void ReportHang(int) {
  constexpr std::string_view kHangs = ": HANGS\n";
  [[maybe_unused]] ssize_t written = write(STDOUT_FILENO, running.data(), running.size());
  written = write(STDOUT_FILENO, kHangs.data(), kHangs.size());
  abort();
}

struct Options {
  bool hosts = false;
  uint64_t rounds = 10;
  uint64_t seed = 1;
  uint64_t jobs = 1;
};

bool Read(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--hosts") {
      options->hosts = true;
      --i;  // it has no value
      continue;
    }
    uint64_t* const number = name == "--rounds" ? &options->rounds
                             : name == "--seed" ? &options->seed
                             : name == "--jobs" ? &options->jobs
                                                : nullptr;
    if (number == nullptr || i + 1 == argc) return false;
    const std::string_view text = argv[i + 1];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
    if (error != std::errc() || end != text.data() + text.size()) return false;
  }
  return options->jobs >= 1 && options->jobs <= 64;
}

bool Run(const Plan& plan) {
  running = plan.Describe();
  alarm(kLongestRoundSeconds);
  const auto begin = std::chrono::steady_clock::now();
  const lockstep::Status status = lockstep::chaos::RunRound(plan);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  alarm(0);
  std::ostringstream line;
  line << running << (status.ok() ? ": ok" : ": FAILED") << " in " << took.count() << " s\n";
  if (!status.ok())
    line << "  " << status << "\n  again: " << (plan.hosts > 0 ? "--hosts " : "")
         << "--rounds 1 --seed " << plan.seed << '\n';
  // At once: others print, too.
  std::cout << line.str() << std::flush;
  return status.ok();
}

// Tells people, and Bazel if it is the one that runs this.
void SayThatSkipped(const std::string& why) {
  std::cout << "SKIPPED: " << why << std::endl;
  const char* const results = std::getenv("XML_OUTPUT_FILE");
  if (results == nullptr) return;
  std::ofstream(results) << "<testsuites><testsuite name='chaos'>"
                         << "<testcase classname='Chaos' name='Hosts'><skipped message=\"" << why
                         << "\"/></testcase></testsuite></testsuites>\n";
}

// Every J-th round, from the first one on. Returns 0, kSkipped, or 1 if one failed.
int RunJob(const Options& options, uint64_t first) {
  signal(SIGALRM, ReportHang);
  spdlog::set_level(spdlog::level::off);
  if (options.hosts) {
    // From here on this process is in a network of its own: its hosts are no other job's.
    const std::string why_not = VirtualHosts::WhyNot();
    if (!why_not.empty() && first == 0) SayThatSkipped(why_not);
    if (!why_not.empty()) return kSkipped;
  }
  bool ok = true;
  for (uint64_t i = first; i < options.rounds; i += options.jobs) {
    const uint64_t seed = options.seed + i;
    ok = Run(options.hosts ? PlanOnHosts(seed) : PlanOf(seed)) && ok;
  }
  return ok ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!Read(argc, argv, &options)) {
    std::cerr << "usage: chaos [--hosts] [--rounds N] [--seed S] [--jobs J]\n";
    return 2;
  }
  std::vector<pid_t> jobs;
  for (uint64_t job = 0; job < options.jobs; ++job) {
    const pid_t pid = fork();
    if (pid == 0) exit(RunJob(options, job));
    jobs.push_back(pid);
  }
  bool ok = true;
  size_t skipped = 0;
  for (const pid_t pid : jobs) {
    int status = 0;
    const bool ended = pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status);
    const bool skips = ended && WEXITSTATUS(status) == kSkipped;
    if (skips) ++skipped;
    ok = ok && ended && (status == 0 || skips);
  }
  if (ok && skipped == jobs.size()) return 0;
  ok = ok && skipped == 0;  // what one can run, the others can
  std::cout << options.rounds << (ok ? " rounds passed" : " rounds: some failed, or did not end")
            << std::endl;
  return ok ? 0 : 1;
}
