// What is given by --set: a line each, KEY=VALUE, for a controller, a worker and a cluster.
#include <cstdint>
#include <sstream>
#include <string>
#include <utility>

#include "services/controller/settings.h"
#include "services/local/cluster_config.h"
#include "services/worker/settings.h"
#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {

void ReadAssignments(const uint8_t* data, size_t size) {
  std::istringstream lines(std::string(reinterpret_cast<const char*>(data), size));
  config::Sources sources;
  for (std::string line; std::getline(lines, line);) {
    sources.assignments.push_back(std::move(line));
  }
  (void)controller::LoadOptions(sources);
  (void)worker::LoadOptions(sources);
  (void)local::LoadCluster(sources);
}

}  // namespace lockstep::fuzz
