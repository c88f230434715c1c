#include "runtime/cuda/elements.h"

namespace lockstep::cuda {

Status Elements::Find(Found& found) {
  if (found.kernel.handle != nullptr) return OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(found.kernel, gpu_->FindKernel(found.name));
  return OkStatus();
}

Status Elements::Prepare() {
  LOCKSTEP_RETURN_IF_ERROR(Find(fill_));
  LOCKSTEP_RETURN_IF_ERROR(Find(arange_));
  return Find(cast_);
}

Status Elements::Launch(Stream& stream, Found& found, uint64_t threads, const void* parameters) {
  if (threads == 0) return OkStatus();
  LOCKSTEP_RETURN_IF_ERROR(Find(found));
  return stream.Launch(found.kernel, threads, parameters);
}

Status Elements::Fill(Stream& stream, Buffer out, uint64_t pattern) {
  const cuda::Fill fill{out.data, out.count, SizeOf(out.dtype), pattern};
  return Launch(stream, fill_, fill.count, &fill);
}

Status Elements::Arange(Stream& stream, Buffer out, const tensor::Steps& steps) {
  const cuda::Arange arange{out.data, out.count, out.dtype, steps};
  return Launch(stream, arange_, arange.count, &arange);
}

Status Elements::Cast(Stream& stream, ConstBuffer from, Buffer to) {
  const cuda::Cast cast{from.data, to.data, to.count, from.dtype, to.dtype};
  return Launch(stream, cast_, cast.count, &cast);
}

}  // namespace lockstep::cuda
