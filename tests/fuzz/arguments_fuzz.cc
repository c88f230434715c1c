// An argument of `lockstep call`, as it is typed.
#include <cstdint>
#include <string>

#include "tests/fuzz/targets.h"
#include "tools/cli/argument.h"

namespace lockstep::fuzz {

void ReadArgument(const uint8_t* data, size_t size) {
  (void)cli::ParseArgument(std::string(reinterpret_cast<const char*>(data), size));
}

}  // namespace lockstep::fuzz
