// What is given by --set: a line each, KEY=VALUE, for a controller, a worker and a cluster.
#include <cstdint>
#include <sstream>
#include <string>
#include <utility>

#include "services/config/cluster_config.h"
#include "services/config/service_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  std::istringstream lines(std::string(reinterpret_cast<const char*>(data), size));
  config::Sources sources;
  for (std::string line; std::getline(lines, line);) {
    sources.assignments.push_back(std::move(line));
  }
  (void)config::LoadController(sources);
  (void)config::LoadWorker(sources);
  (void)config::LoadCluster(sources);
  return 0;
}
