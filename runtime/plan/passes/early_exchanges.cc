#include "runtime/plan/passes/early_exchanges.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::plan {
namespace {

// The call writes to what the exchange reads, or uses what it writes to.
bool DependOnEachOther(const LoweredProgram& lowered, const CallOp& call,
                       const LoweredOp& exchange) {
  const auto home = [&](ValueId id) { return lowered.HomeOf(id); };
  const ValueId source = home(exchange.source);
  const ValueId result = home(exchange.result);
  const auto meets = [&](const CallArgument& argument) {
    if (argument.use == CallArgument::Use::kLiteral) return false;
    const ValueId used = home(argument.value);
    return used == result || (used == source && argument.writes());
  };
  if (std::any_of(call.arguments.begin(), call.arguments.end(), meets)) return true;
  if (call.result == kNoValue) return false;
  return home(call.result) == source || home(call.result) == result;
}

}  // namespace

void BeginExchangesEarly(LoweredProgram* lowered) {
  const std::vector<ProgramOp>& program = lowered->program->ops();
  std::vector<LoweredOp> ordered;
  for (LoweredOp& op : lowered->ops) {
    auto at = ordered.end();
    if (op.is_exchange() && !ordered.empty()) {
      const ProgramOp& before = program[ordered.back().op];
      const auto* const call = std::get_if<CallOp>(&before.what);
      if (call != nullptr && !DependOnEachOther(*lowered, *call, op)) {
        lowered->notes.push_back(program[op.op].where + ": begins before the call at " +
                                 before.where);
        at = std::prev(at);
      }
    }
    ordered.insert(at, std::move(op));
  }
  lowered->ops = std::move(ordered);
}

}  // namespace lockstep::plan
