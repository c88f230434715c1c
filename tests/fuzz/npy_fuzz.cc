// A .npy file.
#include <cstdint>
#include <cstdlib>

#include "runtime/base/dtype.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/targets.h"
#include "tools/cli/npy.h"

namespace lockstep::fuzz {

void ReadNpyFile(const uint8_t* data, size_t size) {
  static InputFile file;
  const auto tensor = cli::ReadNpy(file.Hold(data, size));
  if (!tensor.ok()) return;
  const auto elements = static_cast<uint64_t>(tensor->shape.NumElements());
  if (tensor->data.size() != elements * SizeOf(tensor->dtype)) std::abort();
}

}  // namespace lockstep::fuzz
