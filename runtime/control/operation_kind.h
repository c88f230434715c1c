// The operations among workers as they are on the wire.
#pragma once

#include "runtime/base/operations.h"
#include "schemas/control.capnp.h"

namespace lockstep::control {

// Both count alike, so that a number of one is cast to the other.
static_assert(static_cast<int>(OperationKind::kAllReduce) ==
              static_cast<int>(wire::CollectiveKind::ALL_REDUCE));
static_assert(static_cast<int>(OperationKind::kReduce) ==
              static_cast<int>(wire::CollectiveKind::REDUCE));
static_assert(static_cast<int>(OperationKind::kBroadcast) ==
              static_cast<int>(wire::CollectiveKind::BROADCAST));
static_assert(static_cast<int>(OperationKind::kAllGather) ==
              static_cast<int>(wire::CollectiveKind::ALL_GATHER));
static_assert(static_cast<int>(OperationKind::kGather) ==
              static_cast<int>(wire::CollectiveKind::GATHER));
static_assert(static_cast<int>(OperationKind::kReduceScatter) ==
              static_cast<int>(wire::CollectiveKind::REDUCE_SCATTER));
static_assert(static_cast<int>(OperationKind::kScatter) ==
              static_cast<int>(wire::CollectiveKind::SCATTER));
static_assert(static_cast<int>(OperationKind::kAllToAll) ==
              static_cast<int>(wire::CollectiveKind::ALL_TO_ALL));
static_assert(static_cast<int>(OperationKind::kBarrier) ==
              static_cast<int>(wire::CollectiveKind::BARRIER));
static_assert(static_cast<int>(OperationKind::kTransfer) ==
              static_cast<int>(wire::CollectiveKind::TRANSFER));
static_assert(static_cast<int>(OperationKind::kSendToNextGroup) ==
              static_cast<int>(wire::CollectiveKind::SEND_TO_NEXT_GROUP));
static_assert(static_cast<int>(OperationKind::kReceiveFromPreviousGroup) ==
              static_cast<int>(wire::CollectiveKind::RECEIVE_FROM_PREVIOUS_GROUP));

inline wire::CollectiveKind ToWire(OperationKind kind) {
  return static_cast<wire::CollectiveKind>(kind);
}

// Null: a kind that is not known here.
inline const OperationFacts* FindOperation(wire::CollectiveKind kind) {
  return lockstep::FindOperation(static_cast<size_t>(kind));
}

}  // namespace lockstep::control
