// An argument of `lockstep call`, as it is typed.
#include <cstdint>
#include <string>

#include "tools/cli/argument.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)lockstep::cli::ParseArgument(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
