// A configuration file: of a controller, of a worker, and of a cluster.
#include <cstdint>
#include <cstdlib>

#include "services/controller/settings.h"
#include "services/local/cluster_config.h"
#include "services/local/config_file.h"
#include "services/worker/settings.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {
namespace {

// What `options` are written as is read as options again.
template <typename Options, typename Load>
void WriteAndReadAgain(const Options& options, Load load) {
  static InputFile file;
  const std::string text = ToYaml(options);
  if (!load({file.Hold(text.data(), text.size()), {}}).ok()) std::abort();
}

}  // namespace

void ReadConfiguration(const uint8_t* data, size_t size) {
  static InputFile file;
  const config::Sources sources{file.Hold(data, size), {}};
  if (const auto options = controller::LoadOptions(sources); options.ok()) {
    WriteAndReadAgain(*options, controller::LoadOptions);
  }
  if (const auto options = worker::LoadOptions(sources); options.ok()) {
    WriteAndReadAgain(*options, worker::LoadOptions);
  }
  (void)local::LoadCluster(sources);
  (void)local::GuessFileKind(sources.file);
}

}  // namespace lockstep::fuzz
