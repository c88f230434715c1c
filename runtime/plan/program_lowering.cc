#include "runtime/plan/program_lowering.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace lockstep::plan {
namespace {

class ProgramLowering {
 public:
  ProgramLowering(std::shared_ptr<const Program> program, const Topology& topology,
                  const CostModel& costs, const std::function<bool()>& is_given_up)
      : program_(*program), topology_(topology), costs_(costs), is_given_up_(is_given_up) {
    lowered_.program = std::move(program);
    for (size_t i = 0; i < program_.values().size(); ++i) {
      lowered_.lies_in.push_back(static_cast<ValueId>(i));
    }
    uses_.resize(program_.values().size());
    is_dropped_.resize(program_.ops().size());
    CountUses();
  }

  StatusOr<LoweredProgram> Run() {
    ShareBuffers();
    DropUnread();
    for (size_t i = 0; i < program_.ops().size(); ++i) {
      if (is_dropped_[i]) continue;
      if (const auto* reshard = std::get_if<ReshardOp>(&program_.ops()[i].what)) {
        LOCKSTEP_RETURN_IF_ERROR(Annotate(Lower(i, *reshard), program_.ops()[i].where));
      } else {
        lowered_.ops.push_back({i, nullptr, kNoValue});
      }
    }
    RemoveSkipped();
    for (const LoweredOp& op : lowered_.ops) {
      if (op.reshard != nullptr) lowered_.cost_us += op.reshard->cost_us;
    }
    return std::move(lowered_);
  }

 private:
  struct Uses {
    int writes = 0;  // by operations
    int reads = 0;   // the same, and being an output
    bool is_input = false;
    bool is_output = false;
  };
  Uses& UsesOf(ValueId id) { return uses_[static_cast<size_t>(id)]; }

  void CountUses() {
    for (const ValueId id : program_.inputs()) UsesOf(id).is_input = true;
    for (const ValueId id : program_.outputs()) {
      UsesOf(id).is_output = true;
      ++UsesOf(id).reads;
    }
    for (const ProgramOp& op : program_.ops()) {
      if (const auto* reshard = std::get_if<ReshardOp>(&op.what)) {
        ++UsesOf(reshard->source).reads;
        ++UsesOf(reshard->result).writes;
        continue;
      }
      const auto& call = std::get<CallOp>(op.what);
      if (call.result != kNoValue) ++UsesOf(call.result).writes;
      for (const CallArgument& argument : call.arguments) {
        if (argument.reads()) ++UsesOf(argument.value).reads;
        if (argument.writes()) ++UsesOf(argument.value).writes;
      }
    }
  }

  void Note(size_t op, const std::string& what) {
    lowered_.notes.push_back(program_.ops()[op].where + ": " + what);
  }

  // Nothing is written to it but once: by an operation, or before the program begins.
  bool IsNeverChanged(ValueId id) { return UsesOf(id).writes == (UsesOf(id).is_input ? 0 : 1); }

  // A copy of what is never changed is the same thing. But an output has a buffer of its own: the
  // caller keeps it, whatever becomes of an input.
  void ShareBuffers() {
    for (size_t i = 0; i < program_.ops().size(); ++i) {
      const auto* reshard = std::get_if<ReshardOp>(&program_.ops()[i].what);
      if (reshard == nullptr) continue;
      const Layout& from = program_.value(reshard->source).layout;
      const Layout& to = program_.value(reshard->result).layout;
      if (!(from == to)) continue;
      if (!IsNeverChanged(reshard->source) || !IsNeverChanged(reshard->result)) continue;
      if (UsesOf(reshard->result).is_output) continue;
      lowered_.lies_in[static_cast<size_t>(reshard->result)] = Home(reshard->source);
      is_dropped_[i] = true;
      UsesOf(Home(reshard->source)).reads += UsesOf(reshard->result).reads - 1;
      Note(i, "a reshard to the layout that it has: nothing is done");
    }
  }
  ValueId Home(ValueId id) const { return lowered_.lies_in[static_cast<size_t>(id)]; }

  // From the last to the first: what one made for another that is dropped is not needed, either.
  void DropUnread() {
    for (size_t i = program_.ops().size(); i-- > 0;) {
      const auto* reshard = std::get_if<ReshardOp>(&program_.ops()[i].what);
      if (reshard == nullptr || is_dropped_[i] || UsesOf(reshard->result).reads > 0) continue;
      is_dropped_[i] = true;
      --UsesOf(Home(reshard->source)).reads;
      Note(i, "nothing reads the result: it is not made");
    }
  }

  // Programs repeat themselves, layer by layer: a pair of layouts is lowered once.
  StatusOr<std::shared_ptr<const Reshard>> Between(ValueId source, ValueId result) {
    const Layout& from = program_.value(source).layout;
    const Layout& to = program_.value(result).layout;
    for (const Known& known : known_) {
      if (*known.from == from && *known.to == to) return known.reshard;
    }
    if (known_.size() == kMaxDifferentReshards) {
      return ResourceExhausted("a program reshards between at most ", kMaxDifferentReshards,
                               " different pairs of layouts; make several programs of it");
    }
    if (is_given_up_ && is_given_up_()) return Aborted("the program is given up");
    LOCKSTEP_ASSIGN_OR_RETURN(Reshard reshard, LowerReshard(from, to, topology_, costs_));
    known_.push_back({&from, &to, std::make_shared<const Reshard>(std::move(reshard))});
    return known_.back().reshard;
  }

  Status Lower(size_t i, const ReshardOp& reshard) {
    const ValueId source = Home(reshard.source);
    LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<const Reshard> lowered,
                              Between(source, reshard.result));
    LoweredOp op{i, std::move(lowered), source};
    LOCKSTEP_RETURN_IF_ERROR(MergeWithTheOneBefore(op, reshard.result));
    lowered_.ops.push_back(std::move(op));
    return OkStatus();
  }

  // If `op` begins with what only a reshard made for it, both may be one from where that began.
  Status MergeWithTheOneBefore(LoweredOp& op, ValueId result) {
    const ValueId between = op.source;
    if (UsesOf(between).reads != 1 || !IsNeverChanged(between)) return OkStatus();
    const auto before =
        std::find_if(lowered_.ops.begin(), lowered_.ops.end(), [&](const LoweredOp& earlier) {
          return earlier.reshard != nullptr &&
                 std::get<ReshardOp>(program_.ops()[earlier.op].what).result == between;
        });
    if (before == lowered_.ops.end() || !IsNeverChanged(before->source)) return OkStatus();
    // Combining partial values rounds: what a person wrote in two steps may be meant so.
    if (!program_.value(between).layout.PartialAxes().empty()) return OkStatus();
    LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<const Reshard> whole,
                              Between(before->source, result));
    if (whole->cost_us >= before->reshard->cost_us + op.reshard->cost_us) return OkStatus();
    Note(op.op, "one with the reshard before it, at " + program_.ops()[before->op].where);
    op.reshard = std::move(whole);
    op.source = before->source;
    is_dropped_[before->op] = true;
    return OkStatus();
  }

  void RemoveSkipped() {
    std::erase_if(lowered_.ops, [&](const LoweredOp& op) { return is_dropped_[op.op]; });
  }

  const Program& program_;
  const Topology& topology_;
  const CostModel& costs_;
  const std::function<bool()>& is_given_up_;
  LoweredProgram lowered_;
  std::vector<Uses> uses_;
  std::vector<bool> is_dropped_;  // by operation
  struct Known {
    const Layout* from;
    const Layout* to;
    std::shared_ptr<const Reshard> reshard;
  };
  std::vector<Known> known_;
};

}  // namespace

StatusOr<LoweredProgram> LowerProgram(std::shared_ptr<const Program> program,
                                      const Topology& topology, const CostModel& costs,
                                      const std::function<bool()>& is_given_up) {
  return ProgramLowering(std::move(program), topology, costs, is_given_up).Run();
}

LoweredProgram ProgramOf(Reshard reshard) {
  ProgramBuilder builder;
  const ValueId input = builder.Input("input", reshard.from);
  const ValueId output = builder.Reshard(input, reshard.to, SourceLine());
  builder.Output("output", output);
  LoweredProgram lowered;
  lowered.program = std::make_shared<const Program>(*builder.Build());
  lowered.cost_us = reshard.cost_us;
  lowered.ops.push_back({0, std::make_shared<const Reshard>(std::move(reshard)), input});
  lowered.lies_in = {input, output};
  return lowered;
}

}  // namespace lockstep::plan
