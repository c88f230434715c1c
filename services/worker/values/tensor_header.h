// What ranks tell each other of a tensor before they exchange it: dtype, place and shape.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/device.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/collective/communicator.h"
#include "runtime/tensor/tensor.h"

namespace lockstep::worker {

// A fixed-size message, so that it takes one small operation of a communicator.
class TensorHeader {
 public:
  TensorHeader() = default;
  explicit TensorHeader(const tensor::Tensor& tensor);

  // kInvalidArgument if a peer sent nonsense.
  Status Validate() const;
  DType dtype() const { return static_cast<DType>(words_[0]); }
  // Host memory, or that of a GPU: each rank's own, so no number goes with it.
  DeviceType place() const { return static_cast<DeviceType>(words_[2]); }
  Shape shape() const {
    return Shape(absl::MakeConstSpan(words_.data() + kDims, static_cast<size_t>(words_[1])));
  }

  Buffer buffer() { return ViewOf(words_.data(), words_.size()); }

 private:
  static constexpr size_t kDims = 3;  // where the dimensions begin
  std::array<int64_t, kDims + Shape::kMaxDims> words_{};
};

// Every rank gets every rank's header, in rank order.
StatusOr<std::vector<TensorHeader>> ExchangeHeaders(collective::Communicator& communicator,
                                                    const tensor::Tensor& own, Deadline deadline);

// Every rank gets root's header; `own` is read at the root only.
StatusOr<TensorHeader> BroadcastHeader(collective::Communicator& communicator,
                                       const tensor::Tensor* own, Rank root, Deadline deadline);

// OK if the tensors agree in dtype, place, and in all dimensions but the first, and have one; else
// kInvalidArgument that names the ranks (`members` in rank order) and shows both.
Status CheckSameRows(const std::vector<TensorHeader>& headers, absl::Span<const Rank> members);

}  // namespace lockstep::worker
