#include "runtime/collective/communicator.h"

namespace lockstep::collective {
namespace {

constexpr std::string_view kNames[kReduceOpCount] = {"sum", "prod", "min", "max", "avg"};

}  // namespace

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
