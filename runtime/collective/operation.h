// One operation of a communicator, as a value: what it is, its buffers, and who takes part.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/types/span.h"
#include "runtime/base/deadline.h"
#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/reduction.h"
#include "runtime/base/status.h"

namespace lockstep::collective {

// Collectives tell each other these numbers (Call::kind); messages between two ranks do not.
enum class Kind : uint8_t {
  kBarrier,
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kGather,
  kReduceScatter,
  kScatter,
  kAllToAll,
  kSend,
  kRecv,
  kSendRecv,
};

inline constexpr int kKindCount = 12;

// "barrier", "allreduce", "reduce-scatter", "all-to-all", "send", ... A peer's memory is not
// trusted to hold valid numbers: of others, "an unknown operation".
std::string_view Name(Kind kind);
// Between two ranks, not among all.
constexpr bool IsMessage(Kind kind) { return kind >= Kind::kSend; }
// Combines elements of the ranks.
constexpr bool Reduces(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter;
}

using ReduceOp = Reduction;
inline constexpr int kReduceOpCount = kReductionCount;

// Elements per rank of the group, in rank order.
using Counts = absl::Span<const int64_t>;

// Borrows the buffers and counts. Which fields an operation has, and what it makes of them, is said
// where Communicator declares it; the others are as they are here.
struct Operation {
  Kind kind = Kind::kBarrier;
  ConstBuffer send = {};
  Buffer recv = {};
  ReduceOp op = ReduceOp::kSum;
  Counts counts = {};       // of an all-to-all: those that are sent
  Counts recv_counts = {};  // of an all-to-all
  Rank root = 0;
  Rank to = 0;
  Rank from = 0;
};

// Calls the function of a backend that does the operation. The backend makes this its friend, and
// has a function for each kind.
template <typename Backend>
Status Dispatch(Backend& backend, const Operation& o, Deadline deadline) {
  switch (o.kind) {
    case Kind::kBarrier:
      return backend.DoBarrier(deadline);
    case Kind::kAllReduce:
      return backend.DoAllReduce(o.send, o.recv, o.op, deadline);
    case Kind::kReduce:
      return backend.DoReduce(o.send, o.recv, o.op, o.root, deadline);
    case Kind::kBroadcast:
      return backend.DoBroadcast(o.send, o.recv, o.root, deadline);
    case Kind::kAllGather:
      return backend.DoAllGather(o.send, o.recv, o.counts, deadline);
    case Kind::kGather:
      return backend.DoGather(o.send, o.recv, o.counts, o.root, deadline);
    case Kind::kReduceScatter:
      return backend.DoReduceScatter(o.send, o.recv, o.counts, o.op, deadline);
    case Kind::kScatter:
      return backend.DoScatter(o.send, o.recv, o.counts, o.root, deadline);
    case Kind::kAllToAll:
      return backend.DoAllToAll(o.send, o.counts, o.recv, o.recv_counts, deadline);
    case Kind::kSend:
      return backend.DoSend(o.send, o.to, deadline);
    case Kind::kRecv:
      return backend.DoRecv(o.recv, o.from, deadline);
    case Kind::kSendRecv:
      return backend.DoSendRecv(o.send, o.to, o.recv, o.from, deadline);
  }
  return InvalidArgument("unknown operation number ", static_cast<int>(o.kind));
}

}  // namespace lockstep::collective
