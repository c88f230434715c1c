// Reading NumPy's .npy files.
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "runtime/control/value.h"

namespace lockstep::cli {

// The array in `path`: little-endian, C order, dtypes bool, integers, float16 to float64.
// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
//
// Errors: kNotFound there is no such file; kInvalidArgument it is no .npy file, or holds something
// else (Fortran order, big-endian, text, objects); the message names the file.
StatusOr<HostTensor> ReadNpy(const std::string& path);

}  // namespace lockstep::cli
