// Rounds of chaos:
//   chaos [--rounds N] [--seed S] [--jobs J]
// Round i has the seed S + i; J rounds run at a time, in processes of their own. A seed that failed
// is repeated by `--rounds 1 --seed SEED`.
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/chaos/round.h"

namespace {

using lockstep::chaos::Plan;

// A round that takes longer hangs: its process is ended, which leaves a core or a sanitizer's
// report.
constexpr unsigned kLongestRoundSeconds = 120;

std::string running;  // the round's description, for whoever is told that it hangs

void SayWhoHangs(int) {
  constexpr std::string_view kHangs = ": HANGS\n";
  [[maybe_unused]] ssize_t written = write(STDOUT_FILENO, running.data(), running.size());
  written = write(STDOUT_FILENO, kHangs.data(), kHangs.size());
  abort();
}

struct Options {
  uint64_t rounds = 10;
  uint64_t seed = 1;
  uint64_t jobs = 1;
};

bool Read(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
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
  if (!status.ok()) line << "  " << status << "\n  again: --rounds 1 --seed " << plan.seed << '\n';
  // At once: others print, too.
  std::cout << line.str() << std::flush;
  return status.ok();
}

// Every J-th round, from the first one on. Returns 0, or 1 if one failed.
int RunJob(const Options& options, uint64_t first) {
  signal(SIGALRM, SayWhoHangs);
  spdlog::set_level(spdlog::level::off);
  bool ok = true;
  for (uint64_t i = first; i < options.rounds; i += options.jobs) {
    ok = Run(lockstep::chaos::PlanOf(options.seed + i)) && ok;
  }
  return ok ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!Read(argc, argv, &options)) {
    std::cerr << "usage: chaos [--rounds N] [--seed S] [--jobs J]\n";
    return 2;
  }
  std::vector<pid_t> jobs;
  for (uint64_t job = 0; job < options.jobs; ++job) {
    const pid_t pid = fork();
    if (pid == 0) exit(RunJob(options, job));
    jobs.push_back(pid);
  }
  bool ok = true;
  for (const pid_t pid : jobs) {
    int status = 0;
    ok = pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 && ok;
  }
  std::cout << options.rounds << (ok ? " rounds passed" : " rounds: some failed, or did not end")
            << std::endl;
  return ok ? 0 : 1;
}
