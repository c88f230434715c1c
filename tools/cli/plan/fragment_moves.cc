#include "tools/cli/plan/fragment_moves.h"

#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include "runtime/fragment/plan_call.h"
#include "runtime/plan/lowering/reshard.h"
#include "tools/cli/plan/explain.h"

namespace lockstep::cli::plan_file {
namespace {

using plan::CallArgument;

double SentBytes(const PlanFile& file, const plan::Reshard& reshard) {
  double sent = 0;
  for (const plan::Flux& rank : reshard.TrafficIn(file.topology).ranks) sent += rank.out;
  return sent;
}

// A reshard counts once: for the call that it was made for, in whose line it is, or else for the
// one that made what is moved.
class Describer {
 public:
  explicit Describer(const PlanFile& file) : file_(file) {
    for (const plan::ProgramOp& op : file.program().ops()) {
      const auto* const reshard = std::get_if<plan::ReshardOp>(&op.what);
      if (reshard != nullptr) reshards_[reshard->result] = {reshard->source, op.where};
    }
    for (const plan::ProgramOp& op : file.program().ops()) {
      const plan::CallOp* const call = FragmentCall(op);
      if (call == nullptr) continue;
      for (const CallArgument& argument : call->arguments) {
        if (MovedFor(op.where, argument.value) != nullptr) inputs_.insert(argument.value);
      }
    }
  }

  // Null: the operation calls no fragment.
  const plan::CallOp* FragmentCall(const plan::ProgramOp& op) const {
    const auto* const call = std::get_if<plan::CallOp>(&op.what);
    return call != nullptr && file_.fragments.contains(NameOf(*call)) ? call : nullptr;
  }
  const std::string& NameOf(const plan::CallOp& call) const {
    return file_.program().functions()[static_cast<size_t>(call.function)];
  }

  FragmentTensorFacts Input(plan::ValueId value, const std::string& where) const {
    FragmentTensorFacts facts{NameOf(value), false, ""};
    facts.how = fragment::Name(fragment::SplitOf(LayoutOf(value)));
    const Moved* const moved = MovedFor(where, value);
    if (moved == nullptr) return facts;
    facts.name = NameOf(moved->source);
    for (const plan::LoweredOp& op : file_.lowered.ops) {
      if (op.reshard != nullptr && op.result == value) {
        facts.sent_bytes += SentBytes(file_, *op.reshard);
      }
    }
    return facts;
  }

  FragmentTensorFacts Result(plan::ValueId value) const {
    FragmentTensorFacts facts{NameOf(value), true, ""};
    const StatusOr<fragment::Combine> combine = fragment::CombineOf(LayoutOf(value));
    if (combine.ok()) facts.how = fragment::Name(*combine);
    for (const plan::LoweredOp& op : file_.lowered.ops) {
      if (op.reshard != nullptr && op.source == value && !inputs_.contains(op.result)) {
        facts.sent_bytes += SentBytes(file_, *op.reshard);
      }
    }
    return facts;
  }

 private:
  struct Moved {
    plan::ValueId source;
    std::string where;
  };

  // Null: the value is not what a reshard of that line has made.
  const Moved* MovedFor(const std::string& where, plan::ValueId value) const {
    const auto found = reshards_.find(value);
    return found != reshards_.end() && found->second.where == where ? &found->second : nullptr;
  }
  const plan::Layout& LayoutOf(plan::ValueId value) const {
    return file_.program().value(value).layout;
  }
  std::string NameOf(plan::ValueId value) const {
    return BufferName(file_, static_cast<int>(value));
  }

  const PlanFile& file_;
  std::map<plan::ValueId, Moved> reshards_;  // by result
  std::set<plan::ValueId> inputs_;           // what was moved for a fragment's call
};

}  // namespace

std::vector<FragmentFacts> FindFragments(const PlanFile& file) {
  std::vector<FragmentFacts> all;
  const Describer describe(file);
  for (const plan::ProgramOp& op : file.program().ops()) {
    const plan::CallOp* const call = describe.FragmentCall(op);
    if (call == nullptr) continue;
    FragmentFacts facts{op.where, describe.NameOf(*call), {}};
    for (const CallArgument& argument : call->arguments) {
      if (argument.use == CallArgument::Use::kLiteral) continue;
      facts.tensors.push_back(argument.writes() ? describe.Result(argument.value)
                                                : describe.Input(argument.value, op.where));
    }
    all.push_back(std::move(facts));
  }
  return all;
}

}  // namespace lockstep::cli::plan_file
