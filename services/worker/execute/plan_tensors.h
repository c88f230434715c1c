// The tensors of a bound plan: inputs, what functions return, and the plan's own memory.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/device.h"
#include "runtime/base/status.h"
#include "runtime/plan/steps/program_steps.h"
#include "runtime/registers/lasting_storage.h"
#include "runtime/registers/register_file.h"
#include "runtime/registers/value.h"
#include "runtime/tensor/processor.h"
#include "runtime/tensor/tensor.h"

namespace lockstep::worker {

// By the numbers of the plan's buffers. Threads: the executing thread.
class PlanTensors {
 public:
  // `steps` are borrowed.
  explicit PlanTensors(const plan::ProgramSteps& steps);
  PlanTensors(const PlanTensors&) = delete;
  PlanTensors& operator=(const PlanTensors&) = delete;

  // Takes the plan's own memory where `place` works, for the session of `registers`. The errors of
  // its allocator, and of CheckRoom().
  Status TakeArena(tensor::Processor& place, const registers::RegisterFile& registers);
  // Fills it with 0: outputs can be read before the plan is executed, and nobody's old data is
  // among them.
  Status ClearArena(tensor::Processor& place) { return place.Fill(arena_.buffer(), 0); }

  const tensor::Tensor& operator[](size_t buffer) const { return tensors_[buffer]; }
  // Where each buffer begins; null where this rank has none.
  absl::Span<std::byte* const> memory() const { return memory_; }
  bool IsInArena(const tensor::Tensor& tensor) const {
    return !arena_.IsNull() && tensor.storage() == arena_.storage();
  }
  // The tables of buffers; not what inputs' registers and functions hold, nor the arena, which is
  // counted by itself.
  size_t HeldBytes() const {
    return tensors_.size() * sizeof(tensor::Tensor) + memory_.size() * sizeof(std::byte*) +
           drops_.size() * sizeof(drops_[0]);
  }
  const tensor::Tensor& arena() const { return arena_; }
  size_t arena_bytes() const { return arena_.IsNull() ? 0 : arena_.size_bytes(); }

  // The buffer is this tensor from now on, with those that lie in it.
  void Place(size_t buffer, tensor::Tensor tensor);
  // The buffer is an input's, and no tensor until it is placed again.
  void LetGo(size_t buffer);
  // The buffer is what `function` has returned, called with `arguments`. kInvalidArgument: it is
  // not this rank's tile, on `place`, in memory of its own; kResourceExhausted: see CheckRoom().
  Status PlaceReturned(size_t buffer, const registers::Value& returned, const std::string& function,
                       absl::Span<const registers::Value> arguments, Device place,
                       const registers::RegisterFile& registers);
  // What functions have returned goes, if no step from this one on needs it.
  void DropBefore(size_t step) {
    for (; next_drop_ < step; ++next_drop_) Drop(drops_[next_drop_]);
    if (next_drop_ == drops_.size()) next_drop_ = 0;  // the next execution
  }
  // All that goes in the course of an execution, which is over.
  void DropAll();

 private:
  void Drop(const std::vector<size_t>& buffers);

  const plan::ProgramSteps& steps_;
  tensor::Tensor arena_;
  std::vector<tensor::Tensor> tensors_;
  std::vector<std::byte*> memory_;
  // By buffer: those that lie in it.
  std::vector<std::vector<size_t>> inside_;
  // By step: the buffers with what functions have returned that no later step needs.
  std::vector<std::vector<size_t>> drops_;
  size_t next_drop_ = 0;
  size_t returned_bytes_ = 0;  // of what functions have returned, and is here
};

}  // namespace lockstep::worker
