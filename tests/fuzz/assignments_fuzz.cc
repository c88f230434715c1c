// What is given by --set: a line each, KEY=VALUE, for a controller, a worker and a cluster.
#include <cstdint>
#include <sstream>
#include <string>
#include <utility>

#include "services/config/cluster_config.h"
#include "services/config/service_config.h"
#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {

void ReadAssignments(const uint8_t* data, size_t size) {
  std::istringstream lines(std::string(reinterpret_cast<const char*>(data), size));
  config::Sources sources;
  for (std::string line; std::getline(lines, line);) {
    sources.assignments.push_back(std::move(line));
  }
  (void)config::LoadController(sources);
  (void)config::LoadWorker(sources);
  (void)config::LoadCluster(sources);
}

}  // namespace lockstep::fuzz
