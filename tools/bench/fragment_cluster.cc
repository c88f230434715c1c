#include "tools/bench/fragment_cluster.h"

#include <map>
#include <random>
#include <utility>

#include "runtime/base/child_process.h"

namespace lockstep::bench {
namespace {

const std::map<std::string, std::string>& Examples() {
  static const auto* const texts = new std::map<std::string, std::string>{
#include "tools/bench/example_fragments.inc"
  };
  return *texts;
}

}  // namespace

StatusOr<std::string> FindCompiler() {
  return FindProgram("lockstep-compiler", "LOCKSTEP_COMPILER", "services/compiler");
}

StatusOr<std::unique_ptr<local::LocalCluster>> StartFragmentCluster(int workers,
                                                                    const std::string& cache) {
  local::LocalClusterOptions options;
  options.workers = workers;
  options.mode = local::LocalClusterOptions::Mode::kProcesses;
  LOCKSTEP_ASSIGN_OR_RETURN(options.compiler, FindCompiler());
  options.fragment_cache = cache;
  return local::LocalCluster::Start(options);
}

StatusOr<fragment::Fragment> ExampleFragment(const std::string& name) {
  const auto found = Examples().find(name);
  if (found == Examples().end()) return NotFound("there is no examples/fragments/", name);
  return fragment::Fragment::Mlir(found->second, name);
}

std::vector<double> DrawNumbers(size_t count, unsigned seed) {
  std::minstd_rand random(seed);
  // Sums of four are normal enough, and quick to draw.
  const double most = static_cast<double>(std::minstd_rand::max());
  std::vector<double> numbers(count);
  for (double& number : numbers) {
    number = -2;
    for (int i = 0; i < 4; ++i) number += static_cast<double>(random()) / most;
  }
  return numbers;
}

StatusOr<double> MicrosPerStep(int steps, const std::function<Status()>& step) {
  LOCKSTEP_RETURN_IF_ERROR(step());
  std::vector<double> micros;
  for (int i = 0; i < steps; ++i) {
    const auto start = std::chrono::steady_clock::now();
    LOCKSTEP_RETURN_IF_ERROR(step());
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    micros.push_back(took.count());
  }
  return Median(std::move(micros));
}

void Skip(Line& line, const Status& why) { line.note = "SKIPPED: " + Message(why); }

}  // namespace lockstep::bench
