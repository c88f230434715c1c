// NumPy's .npy files.
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "runtime/control/value.h"

namespace lockstep::cli {

// The array in `path`: little-endian, C order, dtypes bool, integers, float16 to float64.
// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
//
// Errors: kNotFound there is no such file; kInvalidArgument it is no .npy file, or holds something
// else (Fortran order, big-endian, text, objects); kResourceExhausted it is larger than memory; the
// message names the file.
StatusOr<HostTensor> ReadNpy(const std::string& path);

// Writes `tensor` into `path`, which appears whole, or not at all. kInvalidArgument: its dtype is
// not NumPy's (bfloat16, float8); the errors of FileError().
Status WriteNpy(const std::string& path, const HostTensor& tensor);

}  // namespace lockstep::cli
