// Compiles one kernel of CUDA C++, and checks that it takes what its signature says.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "runtime/base/status.h"
#include "runtime/fragment/kernel_signature.h"
#include "services/compiler/cuda/nvrtc.h"

namespace lockstep::compiler {

struct CompiledKernel {
  fragment::Signature signature;
  KernelImage image;  // empty unless it was wanted
};

// Why there is none: kInvalidArgument, if the source is wrong; else the errors of Nvrtc. A line of
// 0: of no place.
struct KernelFailure {
  Status status;
  uint32_t line = 0;
  uint32_t column = 0;
};

std::variant<CompiledKernel, KernelFailure> CompileKernel(const Nvrtc& nvrtc,
                                                          const KernelSource& source,
                                                          int architecture, bool wants_image);

}  // namespace lockstep::compiler
