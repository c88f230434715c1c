#include "tools/bench/machine.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <sstream>
#include <thread>

#include "runtime/base/deadline.h"
#include "runtime/base/sanitizers.h"

namespace lockstep::bench {
namespace {

constexpr std::chrono::milliseconds kSample{200};
constexpr double kQuietCores = 0.1;

#if defined(__OPTIMIZE__)
constexpr bool kIsOptimised = !kSanitized;
#else
constexpr bool kIsOptimised = false;
#endif

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown processor";
}

int UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

std::string Kernel() {
  utsname name{};
  if (uname(&name) != 0) return "unknown kernel";
  return std::string(name.sysname) + " " + name.release + " " + name.machine;
}

std::string Now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

std::string Build() {
  std::string text = kSanitized ? "sanitizer" : kIsOptimised ? "optimised" : "not optimised";
  return text + ", compiler " + __VERSION__;
}

// Seconds that all processors together have been busy since the boot.
double BusySeconds() {
  std::ifstream file("/proc/stat");
  std::string label;
  std::array<uint64_t, 8> ticks{};  // user nice system idle iowait irq softirq steal
  file >> label;
  for (uint64_t& value : ticks) file >> value;
  const uint64_t busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6];
  return static_cast<double>(busy) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

Machine Machine::Describe() {
  return {CpuModel(), UsableCores(), Kernel(), Now(), Build(), kIsOptimised};
}

double BusyCores(std::chrono::milliseconds span) {
  const auto start = Deadline::Clock::now();
  const double before = BusySeconds();
  std::this_thread::sleep_for(span);
  const double busy = BusySeconds() - before;
  const std::chrono::duration<double> elapsed = Deadline::Clock::now() - start;
  return busy / elapsed.count();
}

double WaitForQuiet(std::chrono::milliseconds patience) {
  const Deadline deadline = Deadline::After(patience);
  while (true) {
    const double busy = BusyCores(kSample);
    if (busy < kQuietCores || deadline.Expired()) return busy;
  }
}

}  // namespace lockstep::bench
