// What the CPUs of all ranks tell each other before their GPUs begin.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "absl/types/span.h"
#include "runtime/collective/communicator.h"

namespace lockstep::collective::nccl {

// The bytes of `count` plain values.
template <typename T>
Buffer BytesOf(T* data, size_t count) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {data, count * sizeof(T), DType::kUInt8};
}

// Everybody's `mine`, as many each, in rank order; as part of `what`, which errors tell of.
template <typename T>
StatusOr<std::vector<T>> ShareAmongAll(Communicator& host, absl::Span<const T> mine,
                                       const std::string& what, Deadline deadline) {
  const auto ranks = static_cast<size_t>(host.size());
  std::vector<T> all(mine.size() * ranks);
  const std::vector<int64_t> counts(ranks, static_cast<int64_t>(mine.size() * sizeof(T)));
  host.ActFor(what);
  const Status shared = host.AllGather(BytesOf(const_cast<T*>(mine.data()), mine.size()),
                                       BytesOf(all.data(), all.size()), counts, deadline);
  host.ActFor("");
  if (!shared.ok()) return shared;
  return all;
}

}  // namespace lockstep::collective::nccl
