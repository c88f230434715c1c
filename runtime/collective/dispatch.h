// From an operation to the function of a backend that does it.
#pragma once

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/collective/operation.h"

namespace lockstep::collective {

// The backend makes this its friend, and has a function for each kind.
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
