// What libFuzzer calls: the harness that $LOCKSTEP_FUZZ_TARGET names.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/fuzz/targets.h"

namespace {

lockstep::fuzz::Harness chosen = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  const char* const name = std::getenv("LOCKSTEP_FUZZ_TARGET");
  for (const auto& target : lockstep::fuzz::Targets()) {
    if (name != nullptr && target.name == name) chosen = target.harness;
  }
  if (chosen != nullptr) return 0;
  std::fprintf(stderr, "LOCKSTEP_FUZZ_TARGET names one of these:\n");
  for (const auto& target : lockstep::fuzz::Targets()) {
    std::fprintf(stderr, "  %s\n", target.name.c_str());
  }
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  chosen(data, size);
  return 0;
}
