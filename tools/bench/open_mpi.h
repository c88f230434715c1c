// Open MPI as a rival: where it is, and how it is tuned.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "tools/bench/program.h"

namespace lockstep::bench {

// A way to run it that is best for some sizes on some machines.
struct MpiTuning {
  std::string name;
  std::vector<std::string> options;      // of mpirun
  std::vector<std::string> environment;  // of the ranks
};
const std::vector<MpiTuning>& MpiTunings();
// As if every rank were on a host of its own.
const MpiTuning& MpiOverTcp();

class OpenMpi {
 public:
  // kUnavailable: this machine has none, or had none when the benchmarks were built.
  static StatusOr<OpenMpi> Find();

  // `mpirun` of the benchmark's ranks with these arguments.
  ProgramRun Run(int ranks, const MpiTuning& tuning, const std::vector<std::string>& arguments,
                 const std::string& scratch) const;

 private:
  std::string mpirun_;
  std::string ranks_program_;
};

}  // namespace lockstep::bench
