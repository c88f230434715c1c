#include "services/worker/collective_name.h"

namespace lockstep::worker {

const char* Name(wire::CollectiveKind kind) {
  switch (kind) {
    case wire::CollectiveKind::ALL_REDUCE:
      return "allreduce";
    case wire::CollectiveKind::REDUCE:
      return "reduce";
    case wire::CollectiveKind::BROADCAST:
      return "broadcast";
    case wire::CollectiveKind::ALL_GATHER:
      return "allgather";
    case wire::CollectiveKind::GATHER:
      return "gather";
    case wire::CollectiveKind::REDUCE_SCATTER:
      return "reduce-scatter";
    case wire::CollectiveKind::SCATTER:
      return "scatter";
    case wire::CollectiveKind::ALL_TO_ALL:
      return "all-to-all";
    case wire::CollectiveKind::BARRIER:
      return "barrier";
    case wire::CollectiveKind::TRANSFER:
      return "transfer";
    case wire::CollectiveKind::SEND_TO_NEXT_GROUP:
      return "send to next group";
    case wire::CollectiveKind::RECEIVE_FROM_PREVIOUS_GROUP:
      return "receive from previous group";
  }
  return "collective";
}

}  // namespace lockstep::worker
