#include "runtime/collective/operation.h"

#include <string>

#include "runtime/base/operations.h"

namespace lockstep::collective {
namespace {

// What a rank calls, of the operations among workers; messages have names of their own.
constexpr std::string_view kKindNames[kKindCount] = {FactsOf(OperationKind::kBarrier).name,
                                                     FactsOf(OperationKind::kAllReduce).name,
                                                     FactsOf(OperationKind::kReduce).name,
                                                     FactsOf(OperationKind::kBroadcast).name,
                                                     FactsOf(OperationKind::kAllGather).name,
                                                     FactsOf(OperationKind::kGather).name,
                                                     FactsOf(OperationKind::kReduceScatter).name,
                                                     FactsOf(OperationKind::kScatter).name,
                                                     FactsOf(OperationKind::kAllToAll).name,
                                                     "send",
                                                     "receive",
                                                     "send and receive"};

constexpr std::string_view kNames[kReduceOpCount] = {"sum", "prod", "min", "max", "avg"};

}  // namespace

std::string_view Name(Kind kind) {
  const auto i = static_cast<size_t>(kind);
  return i < kKindCount ? kKindNames[i] : "an unknown operation";
}

std::string_view Name(ReduceOp op) { return kNames[static_cast<size_t>(op)]; }

StatusOr<ReduceOp> ParseReduceOp(std::string_view name) {
  std::string known;
  for (int i = 0; i < kReduceOpCount; ++i) {
    if (name == kNames[i]) return static_cast<ReduceOp>(i);
    known += i == 0 ? "" : ", ";
    known += kNames[i];
  }
  return InvalidArgument("unknown reduction \"", name, "\"; the reductions are ", known);
}

}  // namespace lockstep::collective
