// The operations among workers: one row each, which the wire, the client, program files, metrics,
// traces and the CLI read. docs/collectives.md lists what else a new one touches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep {

// The numbers are those of wire::CollectiveKind (schemas/control.capnp).
enum class OperationKind : uint8_t {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kGather,
  kReduceScatter,
  kScatter,
  kAllToAll,
  kBarrier,
  kTransfer,
  kSendToNextGroup,
  kReceiveFromPreviousGroup,
};
inline constexpr size_t kOperationCount = 12;

// From whom data goes to whom.
enum class DataFlow : uint8_t {
  kAmongAll,     // no rank goes on before all have come: the members leave it together
  kToRoot,       // from all members
  kFromRoot,     // to all members
  kToPeer,       // from one worker to one other
  kToNextGroup,  // from each rank to the same place in the next group
};

// What crosses a rank's bus, in parts of the operation's size, for n ranks: the factors of
// nccl-tests (doc/PERFORMANCE.md there).
enum class BusTraffic : uint8_t {
  kAllOnce,      // 1
  kOthersOnce,   // (n-1)/n
  kOthersTwice,  // 2(n-1)/n
};

struct OperationFacts {
  OperationKind kind;
  std::string_view name;   // in errors, timelines and activities
  std::string_view label;  // in metrics and program files
  DataFlow flow;
  BusTraffic traffic;
};

inline constexpr std::array<OperationFacts, kOperationCount> kOperations = {{
    {OperationKind::kAllReduce, "allreduce", "allreduce", DataFlow::kAmongAll,
     BusTraffic::kOthersTwice},
    {OperationKind::kReduce, "reduce", "reduce", DataFlow::kToRoot, BusTraffic::kAllOnce},
    {OperationKind::kBroadcast, "broadcast", "broadcast", DataFlow::kFromRoot,
     BusTraffic::kAllOnce},
    {OperationKind::kAllGather, "allgather", "allgather", DataFlow::kAmongAll,
     BusTraffic::kOthersOnce},
    {OperationKind::kGather, "gather", "gather", DataFlow::kToRoot, BusTraffic::kOthersOnce},
    {OperationKind::kReduceScatter, "reduce-scatter", "reduce_scatter", DataFlow::kAmongAll,
     BusTraffic::kOthersOnce},
    {OperationKind::kScatter, "scatter", "scatter", DataFlow::kFromRoot, BusTraffic::kOthersOnce},
    {OperationKind::kAllToAll, "all-to-all", "all_to_all", DataFlow::kAmongAll,
     BusTraffic::kOthersOnce},
    {OperationKind::kBarrier, "barrier", "barrier", DataFlow::kAmongAll, BusTraffic::kAllOnce},
    {OperationKind::kTransfer, "transfer", "transfer", DataFlow::kToPeer, BusTraffic::kAllOnce},
    {OperationKind::kSendToNextGroup, "send to next group", "send_to_next_group",
     DataFlow::kToNextGroup, BusTraffic::kAllOnce},
    {OperationKind::kReceiveFromPreviousGroup, "receive from previous group",
     "receive_from_previous_group", DataFlow::kToNextGroup, BusTraffic::kAllOnce},
}};

// Each row stands where its kind's number says.
constexpr bool OperationsAreInOrder() {
  for (size_t i = 0; i < kOperationCount; ++i) {
    if (static_cast<size_t>(kOperations[i].kind) != i) return false;
  }
  return true;
}
static_assert(OperationsAreInOrder());

// `number`: of an OperationKind, perhaps of one that a newer peer knows; null: none known here.
constexpr const OperationFacts* FindOperation(size_t number) {
  return number < kOperationCount ? &kOperations[number] : nullptr;
}
constexpr const OperationFacts* FindOperationNamed(std::string_view name) {
  for (const OperationFacts& facts : kOperations) {
    if (facts.name == name) return &facts;
  }
  return nullptr;
}
constexpr const OperationFacts* FindOperationLabelled(std::string_view label) {
  for (const OperationFacts& facts : kOperations) {
    if (facts.label == label) return &facts;
  }
  return nullptr;
}
constexpr const OperationFacts& FactsOf(OperationKind kind) {
  return kOperations[static_cast<size_t>(kind)];
}

// All members leave it together: what they spend in it differs by when they came.
constexpr bool IsLeftTogether(OperationKind kind) {
  return FactsOf(kind).flow == DataFlow::kAmongAll;
}

// 0 of one rank: nothing crosses.
constexpr double BusFactor(OperationKind kind, int ranks) {
  if (ranks < 2) return 0;
  const double n = ranks;
  switch (FactsOf(kind).traffic) {
    case BusTraffic::kAllOnce:
      return 1;
    case BusTraffic::kOthersOnce:
      return (n - 1) / n;
    case BusTraffic::kOthersTwice:
      return 2 * (n - 1) / n;
  }
  return 1;
}

}  // namespace lockstep
