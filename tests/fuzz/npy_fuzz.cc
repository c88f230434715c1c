// A .npy file.
#include <cstdint>
#include <cstdlib>

#include "runtime/base/dtype.h"
#include "tests/fuzz/input_file.h"
#include "tools/cli/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  static fuzz::InputFile file;
  const auto tensor = cli::ReadNpy(file.Hold(data, size));
  if (!tensor.ok()) return 0;
  const auto elements = static_cast<uint64_t>(tensor->shape.NumElements());
  if (tensor->data.size() != elements * SizeOf(tensor->dtype)) std::abort();
  return 0;
}
