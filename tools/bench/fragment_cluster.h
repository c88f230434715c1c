// What the benchmarks of fragments have in common: a cluster whose workers compile, and the time of
// a step.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/client/session.h"
#include "services/local/local_cluster.h"
#include "tools/bench/report.h"

namespace lockstep::bench {

// The program that compiles fragments. kNotFound: this build has none.
StatusOr<std::string> FindCompiler();

// Workers that are processes. Empty `cache`: they keep what is compiled in memory alone.
StatusOr<std::unique_ptr<local::LocalCluster>> StartFragmentCluster(int workers,
                                                                    const std::string& cache = "");

// One that is in examples/fragments, by its file's name.
StatusOr<fragment::Fragment> ExampleFragment(const std::string& name);

// The same numbers for the same seed, about as a normal distribution has them.
std::vector<double> DrawNumbers(size_t count, unsigned seed = 1);

// The median of `steps` times in microseconds, after one step that does not count.
StatusOr<double> MicrosPerStep(int steps, const std::function<Status()>& step);

// For a line that cannot be measured here.
void Skip(Line& line, const Status& why);

}  // namespace lockstep::bench
