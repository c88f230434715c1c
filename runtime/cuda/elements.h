// What built-in functions do to elements that lie on a GPU, by the kernels of kernels/.
#pragma once

#include <memory>

#include "runtime/base/dtype.h"
#include "runtime/base/status.h"
#include "runtime/cuda/gpu.h"
#include "runtime/cuda/kernels/bodies.h"

namespace lockstep::cuda {

// Each is put into `stream`, and does bit by bit what tensor/element.h
// says.
//
// Threads: one. Errors: kUnimplemented for a GPU older than the kernels are compiled for; the
// GPU's.
class Elements {
 public:
  explicit Elements(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}

  // Finds all of them now: loading code later may wait for what the GPU does.
  Status Prepare();

  // Every element becomes the one whose bytes are the lowest of `pattern`.
  Status Fill(Stream& stream, Buffer out, uint64_t pattern);
  // Element i becomes steps.At(i).
  Status Arange(Stream& stream, Buffer out, const tensor::Steps& steps);
  // As tensor::CastElements().
  Status Cast(Stream& stream, ConstBuffer from, Buffer to);

 private:
  // Looked up when it is wanted first.
  struct Found {
    const char* name;
    Kernel kernel = {};
  };
  Status Find(Found& found);
  Status Launch(Stream& stream, Found& found, uint64_t threads, const void* parameters);

  const std::shared_ptr<Gpu> gpu_;
  Found fill_{cuda::Fill::kName};
  Found arange_{cuda::Arange::kName};
  Found cast_{cuda::Cast::kName};
};

}  // namespace lockstep::cuda
