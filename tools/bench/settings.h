// How a run of the benchmarks was asked for.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace lockstep::bench {

constexpr size_t kKiB = size_t{1} << 10;
constexpr size_t kMiB = size_t{1} << 20;

struct Settings {
  int rounds = 5;
  // A look that takes seconds: fewer rounds and sizes, shorter measurements.
  bool quick = false;
  // An empty directory of this run's own: outputs of programs, sockets of clusters.
  std::string scratch;
  // Of `--scale`: where its picture goes (empty: nowhere), and the numbers of workers (empty: as
  // the mode has them).
  std::string picture = {};
  std::vector<int> workers = {};
  // To how many each worker passes commands on; 0: the controller sends them to each.
  int relays = 0;
};

// kCancelled once ^C or SIGTERM has come. Benchmarks ask between rounds, so that what they started
// is ended in order. A second signal ends the program at once.
Status CheckNotInterrupted();
// To be called once, by main.
void CatchInterrupts();

}  // namespace lockstep::bench
