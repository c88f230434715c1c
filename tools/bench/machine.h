// What the numbers were measured on, and how quiet it was.
#pragma once

#include <chrono>
#include <string>

namespace lockstep::bench {

struct Machine {
  std::string cpu;     // "AMD EPYC 9B14"
  int cores = 0;       // that this program may use
  std::string kernel;  // "Linux 6.1.0 x86_64"
  std::string date;    // UTC, ISO 8601
  std::string build;   // "optimised, g++ 12.2.0"
  // False for a debugger's or a sanitizer's build, whose numbers mean nothing.
  bool is_optimised = false;

  static Machine Describe();
};

// Processor time, in cores, that the whole machine spends during `span`. Between measurements, when
// our own processes sleep, that is what others take.
double BusyCores(std::chrono::milliseconds span);

// Waits until nearly nothing else runs, at most `patience`. Returns what BusyCores() last said.
double WaitForQuiet(std::chrono::milliseconds patience);

}  // namespace lockstep::bench
