#include "runtime/collective/operation.h"

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

}  // namespace

std::string_view Name(Kind kind) {
  const auto i = static_cast<size_t>(kind);
  return i < kKindCount ? kKindNames[i] : "an unknown operation";
}

}  // namespace lockstep::collective
