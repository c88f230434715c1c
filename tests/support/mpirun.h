// Jobs of an MPI launcher on this host.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/child_process.h"

namespace lockstep::support {

class Mpirun {
 public:
  // Why there can be none here; empty: there can.
  static std::string WhyNot();

  // Runs `ranks` processes of a program, argv[0] with its arguments, which find the library that
  // the worker loads. `scratch` is a directory with a short name, for mpirun's files and the log.
  static ChildOptions Job(int ranks, const std::vector<std::string>& argv,
                          const std::string& scratch);
};

}  // namespace lockstep::support
