// Whether a plan's inputs may lie where they lie: a program takes each of them for a value of its
// own.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/tensor/tensor.h"

namespace lockstep::worker {

struct PlacedInput {
  std::string name;
  RegisterId id;
  const tensor::Tensor* tensor = nullptr;  // borrowed
  bool is_written = false;                 // by the program
  bool is_in_arena = false;                // of the plan itself
};

// kInvalidArgument: an input lies in the plan's own memory, or shares memory with another one of
// which the program writes to one. Empty tensors share none.
Status CheckApart(const std::vector<PlacedInput>& inputs);

}  // namespace lockstep::worker
