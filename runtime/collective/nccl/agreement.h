// What the CPUs of all ranks tell each other before their GPUs begin.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "runtime/collective/call.h"
#include "runtime/collective/communicator.h"

namespace lockstep::collective::nccl {

// The bytes of `count` plain values.
template <typename T>
Buffer BytesOf(T* data, size_t count) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {data, count * sizeof(T), DType::kUInt8};
}

// Every rank's `mine`, as many each, in rank order; as part of `what`, which errors tell of.
template <typename T>
StatusOr<std::vector<T>> ShareAmongAll(Communicator& host, absl::Span<const T> mine,
                                       const std::string& what, Deadline deadline) {
  const auto ranks = static_cast<size_t>(host.size());
  std::vector<T> all(mine.size() * ranks);
  const std::vector<int64_t> counts(ranks, static_cast<int64_t>(mine.size() * sizeof(T)));
  host.ReportAs(what);
  const Status shared = host.AllGather(BytesOf(const_cast<T*>(mine.data()), mine.size()),
                                       BytesOf(all.data(), all.size()), counts, deadline);
  host.ReportAs("");
  if (!shared.ok()) return shared;
  return all;
}

// How an operation begins: the ranks of `host` tell each other what they call, and each finds out
// whether it is the same.
//
// Threads: one. Errors: those of `host`; kInvalidArgument says how the ranks differ. After any of
// them the ranks may not agree on anything more.
class CallAgreement {
 public:
  // Borrowed.
  explicit CallAgreement(Communicator& host) : host_(host) {}

  // Calls are parts of `whole` from now on, which errors tell of instead of them; empty: they are
  // not.
  void ReportAs(std::string whole) { whole_ = std::move(whole); }

  // OK if all ranks call the same.
  Status Agree(const Call& call, uint64_t count, Counts counts, Deadline deadline);
  // OK if all ranks mean to do `what` in host memory.
  Status AgreeOnHostMemory(const std::string& what, Deadline deadline);
  // Of an all-to-all. Also whether all parts of all ranks are equally large.
  StatusOr<bool> AgreeOnPairs(DType dtype, Counts send_counts, Counts recv_counts,
                              Deadline deadline);
  // Tells `to` what it is sent, and is told by `from` what comes; refused on both sides if it is
  // not expected. -1: no rank.
  Status AgreeOnMessages(ConstBuffer send, Rank to, ConstBuffer recv, Rank from, Deadline deadline);

 private:
  // What ranks compare.
  struct Header {
    Call call;
    uint64_t count = 0;
    uint64_t hash = 0;  // of all else
  };

  // `where` goes with `what` if the ranks disagree.
  Status AgreeOn(const Header& mine, const std::string& what, const char* where, Deadline deadline);
  int size() const { return host_.size(); }
  absl::Span<const Rank> members() const { return host_.members(); }

  Communicator& host_;
  std::string whole_;
};

}  // namespace lockstep::collective::nccl
