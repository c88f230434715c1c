#include "tools/cli/program/runner.h"

#include <algorithm>
#include <utility>

#include "tools/cli/argument.h"
#include "tools/cli/fragment/fragment_file.h"
#include "tools/cli/program/compare.h"

namespace lockstep::cli::program {

Runner::Runner(Session& session, const Program& program, Observer& observer)
    : session_(session),
      program_(program),
      observer_(observer),
      layout_{session.num_workers(), session.num_groups()} {}

Status Runner::Run() { return RunAll(program_.steps); }

Status Runner::RunAll(const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    if (const auto* repeat = std::get_if<RepeatStep>(&step.action)) {
      LOCKSTEP_RETURN_IF_ERROR(Execute(step, *repeat));
      continue;
    }
    observer_.OnStep(step, done_);
    const Status status = RunOne(step);
    if (!status.ok()) {
      return Annotate(status,
                      program_.file + ":" + std::to_string(step.line) + ": " + step.Title());
    }
    ++done_;
  }
  return OkStatus();
}

Status Runner::RunOne(const Step& step) {
  LOCKSTEP_RETURN_IF_ERROR(
      std::visit([&](const auto& action) { return Execute(step, action); }, step.action));
  // The halves of a transfer between groups wait for each other: only the second one ends.
  const auto* collective = std::get_if<CollectiveStep>(&step.action);
  if (collective != nullptr && collective->kind == OperationKind::kSendToNextGroup) {
    return OkStatus();
  }
  return std::holds_alternative<SyncStep>(step.action) ? OkStatus() : session_.SyncAll();
}

Status Runner::Execute(const Step& step, const LoadStep& load) {
  LOCKSTEP_ASSIGN_OR_RETURN(DRef module, session_.LoadModule(load.path));
  Make(step, std::move(module), RankSet::All(layout_.workers));
  return OkStatus();
}

Status Runner::Execute(const Step& step, const EmptyStep& empty) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      DRef tensor, session_.Empty(empty.tensor.shape, empty.tensor.dtype, empty.only_rank));
  Make(step, std::move(tensor),
       empty.only_rank.has_value() ? RankSet::Of(layout_.workers, {*empty.only_rank})
                                   : RankSet::All(layout_.workers));
  return OkStatus();
}

Status Runner::Execute(const Step& step, const ValuesStep& values) {
  LOCKSTEP_ASSIGN_OR_RETURN(DRef tensor, session_.CopyToWorker0(values.tensor));
  if (values.worker0_only) {
    Make(step, std::move(tensor), RankSet::Of(layout_.workers, {0}));
    return OkStatus();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(DRef everywhere, session_.BroadcastFromWorker0(tensor));
  Make(step, std::move(everywhere), RankSet::All(layout_.workers));
  return OkStatus();
}

StatusOr<DRef> Runner::Function(const std::string& module_name, const std::string& name) {
  const DRef module = module_name.empty() ? DRef() : Find(module_name).ref;
  const auto key = std::make_pair(module.IsNull() ? 0 : module.id().Packed(), name);
  const auto known = functions_.find(key);
  if (known != functions_.end()) return known->second;
  LOCKSTEP_ASSIGN_OR_RETURN(DRef function, module.IsNull() ? session_.GetFunction(name)
                                                           : session_.GetFunction(module, name));
  functions_.emplace(key, function);
  return function;
}

Status Runner::Execute(const Step& step, const CallStep& call) {
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef function, Function(call.module, call.function));
  LOCKSTEP_ASSIGN_OR_RETURN(
      DRef result, CallWithArguments(session_, function, call.args,
                                     [this](const std::string& name) { return Find(name).ref; }));
  Make(step, std::move(result), RankSet::All(layout_.workers));
  return OkStatus();
}

Status Runner::Execute(const Step& step, const CollectiveStep& collective) {
  const DRef source = collective.source.empty() ? DRef() : Find(collective.source).ref;
  const DRef destination =
      collective.destination.empty() ? DRef() : Find(collective.destination).ref;
  LOCKSTEP_ASSIGN_OR_RETURN(DRef result,
                            IssueCollective(session_, collective, source, destination));
  Make(step, std::move(result),
       collective.destination.empty() ? EndsOf(collective, layout_).receivers
                                      : Find(collective.destination).where);
  return OkStatus();
}

Status Runner::Execute(const Step&, const SetStep& set) {
  Register& target = registers_.at(set.target);
  LOCKSTEP_RETURN_IF_ERROR(session_.DebugSet(target.ref, set.rank, set.value));
  target.where.Add(set.rank);
  return OkStatus();
}

Status Runner::Execute(const Step&, const FreeStep& free) {
  for (const std::string& name : free.targets) registers_.erase(name);
  return OkStatus();
}

Status Runner::Execute(const Step&, const SyncStep& sync) {
  return sync.rank.has_value() ? session_.Sync(*sync.rank) : session_.SyncAll();
}

Status Runner::Execute(const Step& step, const PrintStep& print) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<RankValue> values,
                            ReadValues(print.source, print.ranks));
  observer_.OnPrint(step, print.label.empty() ? print.source : print.label, values);
  return OkStatus();
}

Status Runner::Execute(const Step& step, const ExpectStep& expect) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<RankValue> values,
                            ReadValues(expect.source, expect.ranks));
  Verdict verdict;
  for (const RankValue& found : values) {
    const std::optional<ExpectedValue> expected =
        expect.per_rank.empty() ? expect.value
                                : expect.per_rank.at(static_cast<size_t>(found.rank));
    if (auto difference = Difference(expect, expected, found.value)) {
      verdict.failures.push_back({found.rank, *std::move(difference)});
    }
  }
  observer_.OnVerdict(step, verdict);
  return OkStatus();
}

StatusOr<CompiledFragment> Runner::FragmentIn(const std::string& path) {
  const auto known = fragments_.find(path);
  if (known != fragments_.end()) return known->second;
  LOCKSTEP_ASSIGN_OR_RETURN(const fragment::Fragment fragment, ReadFragmentFile(path));
  LOCKSTEP_ASSIGN_OR_RETURN(CompiledFragment compiled, session_.Compile(fragment));
  return fragments_.emplace(path, std::move(compiled)).first->second;
}

StatusOr<BoundPlan> Runner::BindPlan(const ExecuteStep& execute) {
  const PlanSection& section = *program_.plan;
  PlanRegisters bound;
  BoundStep step;
  for (const plan::ValueId id : section.program->inputs()) {
    const std::string& name = section.program->value(id).name;
    const DRef ref = Find(ExecuteStep::RegisterOf(name, execute.inputs)).ref;
    bound.inputs.emplace(name, ref);
    step.registers.push_back(ref);
  }
  for (const std::string& name : section.program->functions()) {
    if (const auto file = section.fragments.find(name); file != section.fragments.end()) {
      LOCKSTEP_ASSIGN_OR_RETURN(bound.fragments[name], FragmentIn(file->second));
      continue;
    }
    const auto module = section.modules.find(name);
    LOCKSTEP_ASSIGN_OR_RETURN(
        const DRef function, Function(module == section.modules.end() ? "" : module->second, name));
    bound.functions.emplace(name, function);
    step.registers.push_back(function);
  }
  const auto known = plans_.find(&execute);
  const auto is_same = [](const DRef& a, const DRef& b) { return a.id() == b.id(); };
  if (known != plans_.end() &&
      std::equal(step.registers.begin(), step.registers.end(), known->second.registers.begin(),
                 known->second.registers.end(), is_same)) {
    return known->second.plan;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(step.plan, session_.Bind(*section.program, bound));
  return plans_.insert_or_assign(&execute, std::move(step)).first->second.plan;
}

Status Runner::Execute(const Step&, const ExecuteStep& execute) {
  LOCKSTEP_ASSIGN_OR_RETURN(BoundPlan plan, BindPlan(execute));
  for (int64_t i = 0; i < execute.times; ++i) LOCKSTEP_RETURN_IF_ERROR(plan.Execute());
  const plan::Program& program = *program_.plan->program;
  for (const plan::ValueId id : program.outputs()) {
    const plan::ProgramValue& output = program.value(id);
    LOCKSTEP_ASSIGN_OR_RETURN(DRef ref, plan.Output(output.name));
    const absl::Span<const Rank> ranks = output.layout.mesh().ranks();
    registers_.insert_or_assign(
        ExecuteStep::RegisterOf(output.name, execute.outputs),
        Register{std::move(ref), RankSet::Of(layout_.workers, {ranks.begin(), ranks.end()})});
  }
  return OkStatus();
}

Status Runner::Execute(const Step&, const RepeatStep& repeat) {
  for (int64_t round = 0; round < repeat.times; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(RunAll(repeat.body));
  }
  return OkStatus();
}

void Runner::Make(const Step& step, DRef ref, RankSet where) {
  if (step.result.empty()) return;
  registers_.insert_or_assign(step.result, Register{std::move(ref), std::move(where)});
}

StatusOr<std::vector<RankValue>> Runner::ReadValues(const std::string& source,
                                                    const RankChoice& ranks) {
  const Register& target = Find(source);
  std::vector<RankValue> values;
  for (Rank rank : ranks.value_or(target.where.ToList())) {
    LOCKSTEP_ASSIGN_OR_RETURN(Value value, session_.DebugGet(target.ref, rank));
    values.push_back({rank, std::move(value)});
  }
  return values;
}

StatusOr<DRef> IssueCollective(Session& session, const CollectiveStep& step, const DRef& source,
                               const DRef& destination) {
  const CollectiveOptions options{step.in_group, step.team, destination};
  switch (step.kind) {
    case OperationKind::kAllReduce:
      return session.AllReduce(source, step.op, options);
    case OperationKind::kReduce:
      return session.Reduce(source, step.op, step.root, options);
    case OperationKind::kBroadcast:
      return session.Broadcast(source, step.root, options);
    case OperationKind::kScatter:
      return session.Scatter(source, step.root, options);
    case OperationKind::kGather:
      return session.Gather(source, step.root, options);
    case OperationKind::kAllGather:
      return session.AllGather(source, options);
    case OperationKind::kReduceScatter:
      return session.ReduceScatter(source, step.op, options);
    case OperationKind::kAllToAll:
      return session.AllToAll(source, options);
    case OperationKind::kTransfer:
      return session.Transfer(source, step.from, step.to, options);
    case OperationKind::kReceiveFromPreviousGroup:
      return session.ReceiveFromPreviousGroup(options);
    case OperationKind::kBarrier: {
      LOCKSTEP_RETURN_IF_ERROR(session.Barrier(options));
      return DRef();
    }
    case OperationKind::kSendToNextGroup: {
      LOCKSTEP_RETURN_IF_ERROR(session.SendToNextGroup(source));
      return DRef();
    }
  }
  return Internal("unknown collective ", static_cast<int>(step.kind));
}

}  // namespace lockstep::cli::program
