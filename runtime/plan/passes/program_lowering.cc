#include "runtime/plan/passes/program_lowering.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/plan/lowering/collective_lowering.h"
#include "runtime/plan/passes/chunk_lowering.h"
#include "runtime/plan/passes/early_exchanges.h"
#include "runtime/plan/passes/grouped_exchanges.h"

namespace lockstep::plan {
namespace {

class ProgramLowering {
 public:
  ProgramLowering(LoweredChunks program, const Topology& topology, const CostModel& costs,
                  const std::function<bool()>& is_given_up, int64_t most_effort)
      : program_(*program.program),
        topology_(topology),
        costs_(costs),
        is_given_up_(is_given_up),
        most_effort_(most_effort),
        effort_(program.effort) {
    lowered_.program = std::move(program.program);
    lowered_.notes = std::move(program.notes);
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
      const ProgramOp& op = program_.ops()[i];
      const std::optional<ProgramOp::Ends> ends = op.ends();
      if (!ends.has_value()) {
        lowered_.ops.push_back({i, nullptr, kNoValue, kNoValue});
        continue;
      }
      if (const auto* chunk = std::get_if<ChunkOp>(&op.what)) {
        lowered_.ops.push_back({i, nullptr, ends->source, ends->result, MayLieInPlace(i, *chunk)});
        continue;
      }
      StatusOr<LoweredOp> lowered = Lower(i, *ends);
      if (!lowered.ok()) return Annotate(lowered.status(), op.where);
      lowered_.ops.push_back(*std::move(lowered));
    }
    RemoveSkipped();
    BeginExchangesEarly(&lowered_);
    for (const LoweredOp& op : lowered_.ops) {
      if (op.reshard != nullptr) lowered_.cost_us += op.reshard->cost_us;
    }
    GroupExchanges(topology_, costs_, &lowered_);
    return std::move(lowered_);
  }

 private:
  struct Uses {
    int writes = 0;  // by operations
    int reads = 0;   // the same, and being an output
    bool is_input = false;
    bool is_output = false;
    std::optional<size_t> last_write;  // operation
  };
  Uses& UsesOf(ValueId id) { return uses_[static_cast<size_t>(id)]; }

  void CountUses() {
    for (const ValueId id : program_.inputs()) UsesOf(id).is_input = true;
    for (const ValueId id : program_.outputs()) {
      UsesOf(id).is_output = true;
      ++UsesOf(id).reads;
    }
    for (size_t i = 0; i < program_.ops().size(); ++i) {
      const auto write = [&](ValueId id) {
        ++UsesOf(id).writes;
        UsesOf(id).last_write = i;
      };
      const ProgramOp& op = program_.ops()[i];
      if (const auto ends = op.ends()) {
        ++UsesOf(ends->source).reads;
        write(ends->result);
        continue;
      }
      const auto& call = std::get<CallOp>(op.what);
      if (call.result != kNoValue) write(call.result);
      for (const CallArgument& argument : call.arguments) {
        if (argument.reads()) ++UsesOf(argument.value).reads;
        if (argument.writes()) write(argument.value);
      }
    }
  }

  void Note(size_t op, const std::string& what) {
    lowered_.notes.push_back(program_.ops()[op].where + ": " + what);
  }

  const Layout& LayoutOf(ValueId id) const { return program_.value(id).layout; }

  // Nothing is written to it but once: by an operation, or before the program begins.
  bool IsNeverChanged(ValueId id) { return UsesOf(id).writes == (UsesOf(id).is_input ? 0 : 1); }

  // If the operation's result is its source, on each rank: what it is called. Else null.
  const char* CopyOf(const ProgramOp& op, const ProgramOp::Ends& ends) const {
    const bool is_same = LayoutOf(ends.source) == LayoutOf(ends.result);
    if (std::holds_alternative<ViewOp>(op.what)) return is_same ? "a copy" : "a view";
    const bool is_reshard = std::holds_alternative<ReshardOp>(op.what);
    return is_reshard && is_same ? "a reshard to the layout that it has" : nullptr;
  }

  // No one can tell whether a chunk lies in its tile: it is read before anything else is written
  // there, or made to be put there.
  bool MayLieInPlace(size_t i, const ChunkOp& op) {
    if (!IsNeverChanged(op.chunk()) || UsesOf(op.chunk()).is_output) return false;
    if (op.puts) return UsesOf(op.chunk()).reads == 1 && !UsesOf(op.chunk()).is_input;
    const std::optional<size_t>& last_write = UsesOf(op.whole()).last_write;
    return !last_write.has_value() || *last_write < i;
  }

  // A copy of what is not changed afterwards, and is not changed itself, is the same thing. But an
  // output has a buffer of its own: the caller keeps it, whatever becomes of an input.
  void ShareBuffers() {
    for (size_t i = 0; i < program_.ops().size(); ++i) {
      const std::optional<ProgramOp::Ends> ends = program_.ops()[i].ends();
      const char* const what = ends.has_value() ? CopyOf(program_.ops()[i], *ends) : nullptr;
      if (what == nullptr) continue;
      const Uses& source = UsesOf(ends->source);
      const Uses& result = UsesOf(ends->result);
      if (source.last_write.has_value() && *source.last_write > i) continue;
      if (!IsNeverChanged(ends->result) || result.is_output) continue;
      const ValueId home = Home(ends->source);
      lowered_.lies_in[static_cast<size_t>(ends->result)] = home;
      is_dropped_[i] = true;
      UsesOf(home).reads += result.reads - 1;
      Note(i, std::string(what) + ": nothing is done");
    }
  }
  ValueId Home(ValueId id) const { return lowered_.HomeOf(id); }

  // From the last to the first: what one made for another that is dropped is not needed, either.
  void DropUnread() {
    for (size_t i = program_.ops().size(); i-- > 0;) {
      const std::optional<ProgramOp::Ends> ends = program_.ops()[i].ends();
      if (!ends.has_value() || is_dropped_[i] || UsesOf(ends->result).reads > 0) continue;
      is_dropped_[i] = true;
      --UsesOf(Home(ends->source)).reads;
      Note(i, "nothing reads the result: it is not made");
    }
  }

  StatusOr<LoweredOp> Lower(size_t i, const ProgramOp::Ends& ends) {
    LoweredOp lowered{i, nullptr, ends.source, ends.result};
    const ProgramOp& op = program_.ops()[i];
    const Layout& to = LayoutOf(ends.result);
    if (std::holds_alternative<ViewOp>(op.what)) {
      lowered.reshard = std::make_shared<const Reshard>(Reshard{to, to, {}, 0});
      return lowered;
    }
    const auto* const collective = std::get_if<CollectiveOp>(&op.what);
    LOCKSTEP_ASSIGN_OR_RETURN(
        lowered.reshard,
        Between(LayoutOf(ends.source), to, collective == nullptr ? nullptr : &collective->what));
    if (collective == nullptr) LOCKSTEP_RETURN_IF_ERROR(MergeWithTheOneBefore(lowered));
    return lowered;
  }

  // Programs repeat themselves, layer by layer: what leads from a layout to another is found once.
  // `collective`: it is that; null: a reshard. The layouts are the program's.
  StatusOr<std::shared_ptr<const Reshard>> Between(const Layout& from, const Layout& to,
                                                   const Collective* collective) {
    for (const Known& known : known_) {
      const bool is_same_kind = collective == nullptr || known.collective == nullptr
                                    ? collective == known.collective
                                    : *collective == *known.collective;
      if (is_same_kind && *known.from == from && *known.to == to) return known.reshard;
    }
    if (known_.size() == kMaxDifferentReshards) {
      return ResourceExhausted("a program reshards between at most ", kMaxDifferentReshards,
                               " different pairs of layouts; make several programs of it");
    }
    if (is_given_up_ && is_given_up_()) return Aborted("the program is given up");
    LOCKSTEP_ASSIGN_OR_RETURN(Reshard reshard, Find(from, to, collective));
    effort_ += reshard.effort;
    if (effort_ > most_effort_) {
      return ResourceExhausted("to find the ways of the program's reshards takes too long: ",
                               known_.size() + 1, " different pairs of layouts took ", effort_,
                               " looks at ranks and pieces of tensors, and at most ", most_effort_,
                               " are taken; make several programs of it, or layouts of fewer axes");
    }
    known_.push_back({&from, &to, collective, std::make_shared<const Reshard>(std::move(reshard))});
    return known_.back().reshard;
  }

  StatusOr<Reshard> Find(const Layout& from, const Layout& to, const Collective* collective) const {
    if (collective == nullptr) return LowerReshard(from, to, topology_, costs_);
    LOCKSTEP_ASSIGN_OR_RETURN(const CollectiveLayouts layouts, LayoutsOf(*collective, from));
    return LowerCollective(*collective, layouts, topology_, costs_);
  }

  // If the reshard begins with what only another one made for it, both may be one from where that
  // began.
  Status MergeWithTheOneBefore(LoweredOp& op) {
    const ValueId between = Home(op.source);
    if (UsesOf(between).reads != 1 || !IsNeverChanged(between)) return OkStatus();
    const auto before =
        std::find_if(lowered_.ops.begin(), lowered_.ops.end(), [&](const LoweredOp& earlier) {
          return std::holds_alternative<ReshardOp>(program_.ops()[earlier.op].what) &&
                 earlier.result == between;
        });
    if (before == lowered_.ops.end() || !IsNeverChanged(before->source)) return OkStatus();
    // Taken for another one, it is not what was resharded.
    if (!(LayoutOf(op.source) == LayoutOf(between))) return OkStatus();
    // Combining partial values rounds: what a person wrote in two steps may be meant so.
    if (!LayoutOf(between).PartialAxes().empty()) return OkStatus();
    LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<const Reshard> whole,
                              Between(LayoutOf(before->source), LayoutOf(op.result), nullptr));
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
  const int64_t most_effort_;
  int64_t effort_;
  LoweredProgram lowered_;
  std::vector<Uses> uses_;
  std::vector<bool> is_dropped_;  // by operation
  struct Known {
    const Layout* from;
    const Layout* to;
    const Collective* collective;
    std::shared_ptr<const Reshard> reshard;
  };
  std::vector<Known> known_;
};

}  // namespace

StatusOr<LoweredProgram> LowerProgram(std::shared_ptr<const Program> program,
                                      const Topology& topology, const CostModel& costs,
                                      const std::function<bool()>& is_given_up,
                                      int64_t most_effort) {
  LOCKSTEP_ASSIGN_OR_RETURN(LoweredChunks chunks, LowerChunks(std::move(program), topology, costs,
                                                              is_given_up, most_effort));
  return ProgramLowering(std::move(chunks), topology, costs, is_given_up, most_effort).Run();
}

LoweredProgram ProgramOf(Reshard reshard) {
  ProgramBuilder builder;
  const ValueId input = builder.Input("input", reshard.from);
  const ValueId output = builder.Reshard(input, reshard.to, SourceLine());
  builder.Output("output", output);
  LoweredProgram lowered;
  lowered.program = std::make_shared<const Program>(*builder.Build());
  lowered.cost_us = reshard.cost_us;
  lowered.ops.push_back({0, std::make_shared<const Reshard>(std::move(reshard)), input, output});
  lowered.lies_in = {input, output};
  return lowered;
}

}  // namespace lockstep::plan
