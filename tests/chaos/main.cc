// Rounds of chaos, one after the other:
//   chaos [--rounds N] [--seed S]
// Round i has the seed S + i. A seed that failed is repeated by `--rounds 1 --seed SEED`.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <string>
#include <string_view>

#include "tests/chaos/round.h"

namespace {

// A round that takes longer hangs: its process is ended, which leaves a core or a sanitizer's
// report.
constexpr unsigned kLongestRoundSeconds = 120;

bool ReadNumber(std::string_view text, uint64_t* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

int Usage() {
  std::cerr << "usage: chaos [--rounds N] [--seed S]\n";
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t rounds = 10;
  uint64_t seed = 1;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    uint64_t* number = name == "--rounds" ? &rounds : name == "--seed" ? &seed : nullptr;
    if (number == nullptr || i + 1 == argc || !ReadNumber(argv[i + 1], number)) return Usage();
  }
  spdlog::set_level(spdlog::level::off);
  uint64_t failed = 0;
  for (uint64_t i = 0; i < rounds; ++i) {
    const lockstep::chaos::Plan plan = lockstep::chaos::PlanOf(seed + i);
    std::cout << plan.Describe() << std::flush;
    alarm(kLongestRoundSeconds);
    const auto begin = std::chrono::steady_clock::now();
    const lockstep::Status status = lockstep::chaos::RunRound(plan);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    alarm(0);
    std::cout << ": " << (status.ok() ? "ok" : "FAILED") << " in " << took.count() << " s"
              << std::endl;
    if (status.ok()) continue;
    ++failed;
    std::cout << "  " << status << "\n  again: chaos --rounds 1 --seed " << plan.seed << std::endl;
  }
  std::cout << rounds - failed << " of " << rounds << " rounds passed" << std::endl;
  return failed == 0 ? 0 : 1;
}
