// Who works on the elements of tensors in one kind of memory: the host's, or a GPU's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/base/device.h"
#include "runtime/base/status.h"
#include "runtime/tensor/element.h"
#include "runtime/tensor/storage.h"
#include "runtime/tensor/tensor.h"

namespace lockstep::tensor {

// Work is done in the order in which it is given; on a GPU some time after the call has returned.
//
// Threads: one. Errors: kResourceExhausted no memory; a GPU's own.
class Processor {
 public:
  virtual ~Processor() = default;

  virtual Device device() const = 0;
  virtual Allocator& allocator() = 0;

  // Every element becomes the one whose bytes are the lowest of `pattern`.
  virtual Status Fill(Buffer out, uint64_t pattern) = 0;
  // Element i becomes steps.At(i).
  virtual Status Arange(const Tensor& out, const Steps& steps) = 0;
  // By the rules of ConvertElement(); both have as many elements.
  virtual Status Cast(const Tensor& from, const Tensor& to) = 0;
  // Copies `rows` rows of `row_bytes`, which begin `pitch` bytes apart on either side. One row may
  // overlap what it is copied to.
  virtual Status CopyRows(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                          size_t row_bytes, size_t rows) = 0;

  // From host memory here, and back. They return when the host's side may be changed, or read.
  virtual Status FromHost(void* to, const void* from, size_t size_bytes) = 0;
  virtual Status ToHost(void* to, const void* from, size_t size_bytes) = 0;
};

// Those that one worker has. Borrowed.
struct Processors {
  Processor* host = nullptr;
  Processor* gpu = nullptr;  // null: it has none

  // Where tensors are made that are told no place.
  Processor& Home() const { return gpu != nullptr ? *gpu : *host; }
  // Who works where `device` is; null: the worker does not reach it. A GPU is the worker's own,
  // whatever its number.
  Processor* Of(Device device) const { return device.type == DeviceType::kCpu ? host : gpu; }
};

// The host's. `allocator` is borrowed.
std::unique_ptr<Processor> NewHostProcessor(Allocator& allocator);

// A copy of `tensor`, which lies with `of`, where `to` works; `tensor` itself if that is where it
// lies.
StatusOr<Tensor> MoveTo(Processor& to, Processor& of, const Tensor& tensor);

}  // namespace lockstep::tensor
