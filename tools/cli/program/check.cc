#include "tools/cli/program/check.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "runtime/base/rank_text.h"
#include "services/config/problems.h"
#include "tools/cli/program/parse.h"
#include "tools/cli/program/placement.h"
#include "tools/cli/program/step_reader.h"
#include "tools/text/format.h"

namespace lockstep::cli::program {
namespace {

class Checker {
 public:
  Checker(const Program& program, const RankLayout& layout, config::Problems& problems)
      : program_(program), layout_(layout), problems_(problems) {}

  void Run() { CheckSteps(program_.steps); }

 private:
  void CheckSteps(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      step_ = &step;
      if (!step.readable) {
        // Its mistake is known; what it would have made is not to be missed by later steps as well.
        Make(RankSet::All(layout_.workers));
        if (const auto* execute = std::get_if<ExecuteStep>(&step.action)) MakeOutputs(*execute);
        continue;
      }
      std::visit([this](const auto& action) { Visit(action); }, step.action);
    }
  }

  void Visit(const LoadStep&) { Make(RankSet::All(layout_.workers)); }
  void Visit(const EmptyStep& empty) {
    if (!empty.only_rank.has_value()) return Make(RankSet::All(layout_.workers));
    if (RankExists(*empty.only_rank)) Make(RankSet::Of(layout_.workers, {*empty.only_rank}));
  }
  void Visit(const ValuesStep& values) {
    Make(values.worker0_only ? RankSet::Of(layout_.workers, {0}) : RankSet::All(layout_.workers));
  }
  void Visit(const CallStep& call) {
    if (!call.module.empty()) Read(call.module, RankSet::All(layout_.workers));
    for (const Argument& arg : call.args) {
      const auto* reference = std::get_if<RegisterReference>(&arg);
      if (reference != nullptr) Read(reference->name, RankSet::All(layout_.workers));
    }
    Make(RankSet::All(layout_.workers));
  }
  void Visit(const CollectiveStep& collective) {
    if (!RanksExist(collective)) {
      Make(RankSet::All(layout_.workers));
      return;
    }
    const CollectiveEnds ends = EndsOf(collective, layout_);
    if (!collective.source.empty()) Read(collective.source, ends.senders);
    if (collective.destination.empty()) {
      Make(ends.receivers);
      return;
    }
    Read(collective.destination, ends.receivers);
    const auto destination = registers_.find(collective.destination);
    if (destination != registers_.end()) Make(RankSet(destination->second));
  }
  void Visit(const SetStep& set) {
    Read(set.target, RankSet::None(layout_.workers));
    const auto target = registers_.find(set.target);
    if (RankExists(set.rank) && target != registers_.end()) target->second.Add(set.rank);
  }
  void Visit(const FreeStep& free) {
    for (const std::string& name : free.targets) {
      Read(name, RankSet::None(layout_.workers));
      if (registers_.erase(name) > 0) freed_[name] = step_->line;
    }
  }
  void Visit(const SyncStep& sync) {
    if (sync.rank.has_value()) RankExists(*sync.rank);
  }
  void Visit(const PrintStep& print) { CheckReadable(print.source, print.ranks); }
  void Visit(const ExpectStep& expect) {
    if (expect.per_rank.empty()) return CheckReadable(expect.source, expect.ranks);
    const auto count = static_cast<int>(expect.per_rank.size());
    if (layout_.workers > 0 && count != layout_.workers) {
      Report("per_rank has " + text::Plural(expect.per_rank.size(), "value") + ", but there are " +
             text::Plural(static_cast<uint64_t>(layout_.workers), "worker"));
    }
    Read(expect.source, RankSet::All(layout_.workers));
  }
  void Visit(const ExecuteStep& execute) {
    if (!program_.plan.has_value()) return Report("the file has no section \"plan\"");
    const plan::Program* const program = program_.plan->program.get();
    if (program == nullptr) return MakeOutputs(execute);
    CheckNames("input", execute.inputs, *program, program->inputs());
    CheckNames("output", execute.outputs, *program, program->outputs());
    for (const Rank rank : program->Ranks()) {
      if (!RankExists(rank)) return MakeOutputs(execute);
    }
    for (const auto& [function, module] : program_.plan->modules) {
      Read(module, RankSet::All(layout_.workers));
    }
    for (const plan::ValueId id : program->inputs()) {
      const plan::ProgramValue& input = program->value(id);
      Read(ExecuteStep::RegisterOf(input.name, execute.inputs), RanksOf(input));
    }
    for (const plan::ValueId id : program->outputs()) {
      const plan::ProgramValue& output = program->value(id);
      MakeNamed(ExecuteStep::RegisterOf(output.name, execute.outputs), RanksOf(output));
    }
  }
  void Visit(const RepeatStep& repeat) {
    // What the first round leaves is what the second starts with; later ones change nothing more.
    // (None at all is a mistake that has been reported already.)
    const int64_t rounds = std::clamp<int64_t>(repeat.times, 1, 2);
    for (int64_t round = 0; round < rounds; ++round) CheckSteps(repeat.body);
  }

  // The step's result, if it has a name, holds a value on `ranks` from now on.
  void Make(RankSet ranks) {
    if (!step_->result.empty()) MakeNamed(step_->result, std::move(ranks));
  }
  void MakeNamed(const std::string& name, RankSet ranks) {
    registers_.insert_or_assign(name, std::move(ranks));
    freed_.erase(name);
  }

  // Of a plan that is wrong itself, or of a step that is.
  void MakeOutputs(const ExecuteStep& execute) {
    if (!program_.plan.has_value()) return;
    for (const std::string& name : program_.plan->outputs) {
      MakeNamed(ExecuteStep::RegisterOf(name, execute.outputs), RankSet::All(layout_.workers));
    }
  }

  RankSet RanksOf(const plan::ProgramValue& value) const {
    const absl::Span<const Rank> ranks = value.layout.mesh().ranks();
    return RankSet::Of(layout_.workers, {ranks.begin(), ranks.end()});
  }

  // A name that the plan does not have is a mistake.
  void CheckNames(const std::string& kind, const std::map<std::string, std::string>& given,
                  const plan::Program& program, const std::vector<plan::ValueId>& values) {
    std::vector<std::string_view> known;
    for (const plan::ValueId id : values) known.push_back(program.value(id).name);
    for (const auto& entry : given) {
      const std::string& name = entry.first;
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      std::string problem = "the plan has no ";
      problem.append(kind).append(" \"").append(name).append("\"");
      Report(problem + Suggestion(name, known));
    }
  }

  // The step reads `name` on `ranks`.
  void Read(const std::string& name, const RankSet& ranks) {
    const auto found = registers_.find(name);
    if (found == registers_.end()) return ReportUnknown(name);
    const std::vector<Rank> missing = ranks.Without(found->second);
    if (missing.empty()) return;
    const std::vector<Rank> present = found->second.ToList();
    Report("\"" + name + "\" is read on " + RanksText(missing) + ", but holds a value on " +
           (present.empty() ? "no rank" : RanksText(present) + " only"));
  }

  void CheckReadable(const std::string& name, const RankChoice& choice) {
    if (!choice.has_value()) {
      Read(name, RankSet::None(layout_.workers));
      return;
    }
    for (Rank rank : *choice) {
      if (!RankExists(rank)) return;
    }
    Read(name, RankSet::Of(layout_.workers, *choice));
  }

  bool RankExists(Rank rank) {
    if (layout_.workers == 0 || rank < layout_.workers) return true;
    Report("there is no rank " + std::to_string(rank) + "; the ranks are 0-" +
           std::to_string(layout_.workers - 1));
    return false;
  }

  bool RanksExist(const CollectiveStep& step) {
    if (layout_.workers == 0) {
      return step.team.empty() || RootIsBelow(step, static_cast<int>(step.team.size()), "team");
    }
    for (Rank rank : step.team) {
      if (!RankExists(rank)) return false;
    }
    if (!step.team.empty()) return RootIsBelow(step, static_cast<int>(step.team.size()), "team");
    if (step.in_group) return RootIsBelow(step, layout_.workers / layout_.groups, "group");
    if (step.kind == OperationKind::kTransfer && step.from == step.to) {
      Report("rank " + std::to_string(step.from) + " cannot send to itself");
      return false;
    }
    return RankExists(step.root) && RankExists(step.from) && RankExists(step.to);
  }

  bool RootIsBelow(const CollectiveStep& step, int size, const std::string& what) {
    if (step.root < size) return true;
    Report("root " + std::to_string(step.root) + " is no rank of a " + what + " of " +
           std::to_string(size) + "; it counts inside the " + what);
    return false;
  }

  static std::string RanksText(const std::vector<Rank>& ranks) { return ListRanks(ranks); }

  void ReportUnknown(const std::string& name) {
    if (name.empty()) return;
    const auto freed = freed_.find(name);
    if (freed != freed_.end()) {
      return Report("\"" + name + "\" was freed in line " + std::to_string(freed->second));
    }
    std::vector<std::string_view> names;
    for (const auto& [known, ranks] : registers_) names.push_back(known);
    Report("no step before this one makes a register \"" + name + "\"" + Suggestion(name, names));
  }

  void Report(const std::string& what) {
    // The second round of a repeat finds the same problems again.
    const std::string where = program_.file + ":" + std::to_string(step_->line);
    const std::string text = step_->Title() + ": " + what;
    if (reported_.insert(where + text).second) problems_.Add(where, text);
  }

  const Program& program_;
  const RankLayout layout_;
  const Step* step_ = nullptr;
  std::map<std::string, RankSet> registers_;
  std::map<std::string, int> freed_;  // name -> line
  std::set<std::string> reported_;
  config::Problems& problems_;
};

void CheckAll(const Program& program, int workers, config::Problems& problems) {
  if (workers > 0) {
    if (program.workers.has_value() && *program.workers != workers) {
      return problems.Add(program.file,
                          "the program is written for " +
                              text::Plural(static_cast<uint64_t>(*program.workers), "worker") +
                              ", but the cluster has " + std::to_string(workers));
    }
    if (workers % program.groups != 0) {
      return problems.Add(program.file, std::to_string(program.groups) + " groups do not divide " +
                                            text::Plural(static_cast<uint64_t>(workers), "worker") +
                                            " evenly");
    }
  }
  Checker(program, RankLayout{workers, program.groups}, problems).Run();
}

}  // namespace

Status CheckProgram(const Program& program, int workers) {
  config::Problems problems;
  CheckAll(program, workers, problems);
  return problems.ToStatus();
}

StatusOr<Program> LoadProgram(const std::string& path) {
  config::Problems problems;
  LOCKSTEP_ASSIGN_OR_RETURN(Program program, ReadProgramFile(path, problems));
  CheckAll(program, program.workers.value_or(0), problems);
  LOCKSTEP_RETURN_IF_ERROR(problems.ToStatus());
  return program;
}

}  // namespace lockstep::cli::program
