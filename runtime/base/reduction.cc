#include "runtime/base/reduction.h"

#include <string>

namespace lockstep {

namespace {
constexpr std::string_view kReductionNames[kReductionCount] = {"sum", "prod", "min", "max", "avg"};
}  // namespace

std::string_view Name(Reduction op) { return kReductionNames[static_cast<size_t>(op)]; }

StatusOr<Reduction> ParseReduction(std::string_view name) {
  std::string known;
  for (int i = 0; i < kReductionCount; ++i) {
    if (name == kReductionNames[i]) return static_cast<Reduction>(i);
    known += i == 0 ? "" : ", ";
    known += kReductionNames[i];
  }
  return InvalidArgument("unknown reduction \"", name, "\"; the reductions are ", known);
}

}  // namespace lockstep
