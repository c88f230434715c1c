#include "services/worker/values/tensor_header.h"

#include <algorithm>

namespace lockstep::worker {
namespace {

const char* PhraseOf(DeviceType place) {
  return place == DeviceType::kCpu ? "in host memory" : "on its GPU";
}

}  // namespace

TensorHeader::TensorHeader(const tensor::Tensor& tensor) {
  words_[0] = static_cast<int64_t>(tensor.dtype());
  words_[1] = tensor.shape().ndim();
  const auto dims = tensor.shape().dims();
  words_[2] = static_cast<int64_t>(tensor.device().type);
  std::copy(dims.begin(), dims.end(), words_.begin() + kDims);
}

Status TensorHeader::Validate() const {
  if (words_[0] < 0 || words_[0] >= kDTypeCount || words_[1] < 0 || words_[1] > Shape::kMaxDims ||
      (place() != DeviceType::kCpu && place() != DeviceType::kCuda)) {
    return InvalidArgument("a peer sent an impossible tensor header");
  }
  return shape().Validate(SizeOf(dtype()));
}

StatusOr<std::vector<TensorHeader>> ExchangeHeaders(collective::Communicator& communicator,
                                                    const tensor::Tensor& own, Deadline deadline) {
  const auto size = static_cast<size_t>(communicator.size());
  TensorHeader mine(own);
  const size_t words = mine.buffer().count;
  std::vector<int64_t> gathered(words * size);
  const std::vector<int64_t> counts(size, static_cast<int64_t>(words));
  LOCKSTEP_RETURN_IF_ERROR(communicator.AllGather(
      mine.buffer(), ViewOf(gathered.data(), gathered.size()), counts, deadline));
  std::vector<TensorHeader> headers(size);
  for (size_t r = 0; r < size; ++r) {
    auto* target = static_cast<int64_t*>(headers[r].buffer().data);
    std::copy_n(gathered.begin() + static_cast<ptrdiff_t>(r * words), words, target);
    LOCKSTEP_RETURN_IF_ERROR(headers[r].Validate());
  }
  return headers;
}

StatusOr<TensorHeader> BroadcastHeader(collective::Communicator& communicator,
                                       const tensor::Tensor* own, Rank root, Deadline deadline) {
  TensorHeader header;
  if (own != nullptr) header = TensorHeader(*own);
  const Buffer buffer = header.buffer();
  const bool is_root = communicator.rank() == root;
  LOCKSTEP_RETURN_IF_ERROR(communicator.Broadcast(is_root ? ConstBuffer(buffer) : ConstBuffer(),
                                                  buffer, root, deadline));
  LOCKSTEP_RETURN_IF_ERROR(header.Validate());
  return header;
}

Status CheckSameRows(const std::vector<TensorHeader>& headers, absl::Span<const Rank> members) {
  const TensorHeader& first = headers.front();
  const Shape first_shape = first.shape();
  for (size_t r = 0; r < headers.size(); ++r) {
    const Shape shape = headers[r].shape();
    if (shape.ndim() == 0) {
      return InvalidArgument("rank ", members[r],
                             " has a scalar; rows are dealt out and joined "
                             "along dimension 0, so the tensor needs one");
    }
    if (headers[r].place() != first.place()) {
      return InvalidArgument("the ranks disagree: rank ", members[0], " has a tensor ",
                             PhraseOf(first.place()), ", rank ", members[r], " one ",
                             PhraseOf(headers[r].place()),
                             "; move one of them by lockstep.to_device first");
    }
    if (headers[r].dtype() == first.dtype() && shape.ndim() == first_shape.ndim() &&
        std::equal(shape.dims().begin() + 1, shape.dims().end(), first_shape.dims().begin() + 1)) {
      continue;
    }
    return InvalidArgument("the ranks disagree: rank ", members[0], " has ", first.dtype(), " ",
                           first_shape, ", rank ", members[r], " has ", headers[r].dtype(), " ",
                           shape, "; all but dimension 0 must be equal");
  }
  return OkStatus();
}

}  // namespace lockstep::worker
