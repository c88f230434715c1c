// A configuration file: of a controller, of a worker, and of a cluster.
#include <cstdint>
#include <cstdlib>

#include "services/config/cluster_config.h"
#include "services/config/service_config.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {
namespace {

// What `options` are written as is read as options again.
template <typename Options, typename Load>
void WriteAndReadAgain(const Options& options, Load load) {
  static InputFile file;
  const std::string text = config::ToYaml(options);
  if (!load({file.Hold(text.data(), text.size()), {}}).ok()) std::abort();
}

}  // namespace

void ReadConfiguration(const uint8_t* data, size_t size) {
  static InputFile file;
  const config::Sources sources{file.Hold(data, size), {}};
  if (const auto options = config::LoadController(sources); options.ok()) {
    WriteAndReadAgain(*options, config::LoadController);
  }
  if (const auto options = config::LoadWorker(sources); options.ok()) {
    WriteAndReadAgain(*options, config::LoadWorker);
  }
  (void)config::LoadCluster(sources);
  (void)config::GuessFileKind(sources.file);
}

}  // namespace lockstep::fuzz
