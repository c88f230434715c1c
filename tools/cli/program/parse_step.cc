#include "tools/cli/program/parse_step.h"

#include <filesystem>
#include <map>
#include <utility>

#include "tools/cli/npy.h"
#include "tools/cli/plan/builtin_names.h"

namespace lockstep::cli::program {
namespace {

using Action = decltype(Step::action);

constexpr int kMaxRepeatDepth = 8;

Action ParseLoad(StepReader& step, FileContext&) { return LoadStep{step.OperandText("a path")}; }

Action ParseEmpty(StepReader& step, FileContext&) {
  EmptyStep empty;
  empty.tensor.dtype = step.ElementType();
  empty.tensor.shape = step.ReadShape(step.operand()).value_or(Shape());
  empty.only_rank = step.OneRank("only_rank");
  return empty;
}

Action ParseFull(StepReader& step, FileContext&) {
  CallStep call{"", "lockstep.full", {}};
  step.Require("value");
  call.args.push_back(Value(step.ReadShape(step.operand()).value_or(Shape())));
  if (step.Has("value")) {
    call.args.push_back(step.ReadAny(step.Find("value")).value_or(Value()));
  }
  call.args.push_back(Value(step.ElementType()));
  return call;
}

Action ParseArange(StepReader& step, FileContext&) {
  CallStep call{"", "lockstep.arange", {Value(0), Value(0), Value(1), Value(step.ElementType())}};
  const YAML::Node& range = step.operand();
  if (!range.IsSequence()) {
    call.args[1] = step.ReadAny(range).value_or(Value());
    return call;
  }
  if (range.size() < 2 || range.size() > 3) {
    step.Report(range, "expected an end, [begin, end], or [begin, end, step]");
    return call;
  }
  for (size_t i = 0; i < range.size(); ++i) {
    call.args[i] = step.ReadAny(range[i]).value_or(Value());
  }
  return call;
}

Action ParseValues(StepReader& step, FileContext&) {
  ValuesStep values;
  values.worker0_only = step.Flag("worker0");
  const DType dtype = step.ElementType();
  if (const auto array = step.Check(step.operand(), "", ReadNumbers(step.operand()))) {
    values.tensor =
        step.Check(step.operand(), "", MakeTensor(dtype, *array)).value_or(HostTensor());
  }
  return values;
}

Action ParseNpy(StepReader& step, FileContext& file) {
  ValuesStep values;
  values.worker0_only = true;
  const std::string path = step.OperandText("a path");
  const std::string full_path = (std::filesystem::path(file.directory) / path).string();
  values.tensor = step.Check(step.operand(), "", ReadNpy(full_path)).value_or(HostTensor());
  return values;
}

Action ParseCall(StepReader& step, FileContext&) {
  CallStep call{step.Register("module"), step.OperandText("the name of a function"), {}};
  if (!step.Has("module")) {
    const Status known = plan_file::CheckBuiltinName(call.function);
    if (!known.ok()) step.Report(step.operand(), Message(known));
  }
  const YAML::Node args = step.Find("args");
  if (!args.IsDefined() || args.IsNull()) return call;
  if (!args.IsSequence()) {
    step.Report(args, "args: expected a list, as in [$x, 2, f32]");
    return call;
  }
  for (const YAML::Node& arg : args) {
    if (std::optional<Argument> argument = step.ReadAny(arg)) {
      call.args.push_back(*std::move(argument));
    }
  }
  return call;
}

Reduction ParseReduction(StepReader& step) {
  static constexpr std::pair<std::string_view, Reduction> kOps[] = {
      {"sum", Reduction::kSum}, {"prod", Reduction::kProd}, {"min", Reduction::kMin},
      {"max", Reduction::kMax}, {"avg", Reduction::kAvg},
  };
  const std::string op = step.Text("op");
  for (const auto& [name, reduction] : kOps) {
    if (op == name) return reduction;
  }
  if (step.Has("op")) {
    step.Report(step.Find("op"),
                "op: there is no \"" + op + "\"; expected sum, prod, min, max or avg");
  }
  return Reduction::kSum;
}

Action ParseCollective(StepReader& step, OperationKind kind) {
  CollectiveStep collective;
  collective.kind = kind;
  collective.source = step.OperandRegister();
  collective.op = ParseReduction(step);
  collective.root = step.OneRank("root").value_or(0);
  collective.in_group = step.Flag("in_group");
  collective.team = step.Ranks("team");
  collective.destination = step.Register("into");
  if (collective.in_group && !collective.team.empty()) {
    step.Report(step.Find("team"), "a step takes place in a team or inside each group, not both");
  }
  if (kind == OperationKind::kTransfer) {
    step.Require("from");
    step.Require("to");
    collective.from = step.OneRank("from").value_or(0);
    collective.to = step.OneRank("to").value_or(0);
  }
  return collective;
}

Action ParseSet(StepReader& step, FileContext& file) {
  SetStep set;
  set.target = step.OperandRegister();
  step.Require("rank");
  step.Require("value");
  set.rank = step.OneRank("rank").value_or(0);
  const YAML::Node value = step.Find("value");
  if (value.IsDefined()) {
    set.value = step.Check(value, "value", ReadValue(value, file.directory)).value_or(Value());
  }
  return set;
}

Action ParseFree(StepReader& step, FileContext&) {
  FreeStep free;
  if (!step.operand().IsSequence()) {
    free.targets.push_back(step.OperandRegister());
    return free;
  }
  for (const YAML::Node& item : step.operand()) {
    if (item.IsScalar() && IsRegisterName(item.Scalar())) {
      free.targets.push_back(item.Scalar());
    } else {
      step.Report(item, "expected names of registers");
    }
  }
  return free;
}

Action ParseSync(StepReader& step, FileContext&) {
  if (!step.HasOperand()) return SyncStep{};
  return SyncStep{step.ReadRank(step.operand(), "sync")};
}

Action ParsePrint(StepReader& step, FileContext&) {
  return PrintStep{step.OperandRegister(), step.Choice("rank"), step.Text("label")};
}

// Numbers, and lists of numbers, are compared with tensors and scalars alike; the rest is a value.
std::optional<ExpectedValue> ParseExpected(StepReader& step, const YAML::Node& node,
                                           const std::string& key, const std::string& directory) {
  const bool has_tag = node.Tag().size() > 1 && node.Tag()[0] == '!';
  if (!has_tag) {
    if (StatusOr<NumberArray> numbers = ReadNumbers(node); numbers.ok()) {
      return ExpectedValue(*std::move(numbers));
    }
  }
  std::optional<Value> value = step.Check(node, key, ReadValue(node, directory));
  if (!value.has_value()) return std::nullopt;
  return ExpectedValue(*std::move(value));
}

Action ParseExpect(StepReader& step, FileContext& file) {
  ExpectStep expect;
  expect.source = step.OperandRegister();
  expect.ranks = step.Choice("rank");
  expect.tolerance = step.NonNegative("tolerance");
  if (step.Has("value")) {
    expect.value = ParseExpected(step, step.Find("value"), "value", file.directory);
  }
  const YAML::Node per_rank = step.Find("per_rank");
  if (per_rank.IsDefined()) {
    if (!per_rank.IsSequence() || per_rank.size() == 0) {
      step.Report(per_rank, "per_rank: expected a list with the value of rank 0, 1, ...");
    } else {
      for (const YAML::Node& item : per_rank) {
        auto value = ParseExpected(step, item, "per_rank", file.directory);
        if (value.has_value()) expect.per_rank.push_back(*std::move(value));
      }
    }
    if (step.Has("value") || step.Has("rank")) {
      step.Report(per_rank, "per_rank says it for all ranks: it excludes value and rank");
    }
  }
  if (step.Has("shape")) expect.shape = step.ReadShape(step.Find("shape"));
  if (step.Has("dtype")) expect.dtype = step.ElementType();
  if (!step.Has("value") && !step.Has("per_rank") && !step.Has("shape") && !step.Has("dtype")) {
    step.Report(step.operand(), "nothing is expected: give value, per_rank, shape or dtype");
  }
  return expect;
}

Action ParseRepeat(StepReader& step, const std::string& number, FileContext& file) {
  RepeatStep repeat;
  repeat.times = step.HasOperand() ? step.ReadCount(step.operand(), "a count").value_or(0) : 0;
  if (step.HasOperand() && repeat.times == 0) step.Report(step.operand(), "repeat at least once");
  step.Require("steps");
  if (step.Has("steps")) repeat.body = ParseSteps(step.Find("steps"), number + ".", file);
  return repeat;
}

Action ParseExecute(StepReader& step, FileContext&) {
  ExecuteStep execute;
  if (step.OperandText("plan") != "plan") {
    step.Report(step.operand(), "expected the name of the section: execute: plan");
  }
  if (step.Has("times")) {
    execute.times = step.ReadCount(step.Find("times"), "times: a count").value_or(1);
    if (execute.times == 0) step.Report(step.Find("times"), "times: execute it at least once");
  }
  execute.inputs = step.Registers("inputs");
  execute.outputs = step.Registers("outputs");
  return execute;
}

using Parser = Action (*)(StepReader&, FileContext&);

Action ParseAction(StepReader& step, const std::string& number, FileContext& file) {
  static const auto* const kParsers = new std::map<std::string_view, Parser>{
      {"load", ParseLoad},       {"empty", ParseEmpty},   {"full", ParseFull},
      {"arange", ParseArange},   {"values", ParseValues}, {"npy", ParseNpy},
      {"call", ParseCall},       {"set", ParseSet},       {"free", ParseFree},
      {"sync", ParseSync},       {"print", ParsePrint},   {"expect", ParseExpect},
      {"execute", ParseExecute},
  };
  const std::string_view verb = step.verb()->name;
  if (const auto parser = kParsers->find(verb); parser != kParsers->end()) {
    return parser->second(step, file);
  }
  if (const OperationFacts* const operation = FindOperationLabelled(verb); operation != nullptr) {
    return ParseCollective(step, operation->kind);
  }
  return ParseRepeat(step, number, file);
}

std::string ResultName(StepReader& step) {
  const std::string name = step.Register("as");
  // A tensor without a name could never be used. Calls and collectives may be made for their
  // effect.
  const std::string_view verb = step.verb()->name;
  if (verb == "load" || verb == "empty" || verb == "full" || verb == "arange" || verb == "values" ||
      verb == "npy") {
    step.Require("as");
  }
  return name;
}

}  // namespace

std::vector<Step> ParseSteps(const YAML::Node& list, const std::string& prefix, FileContext& file) {
  std::vector<Step> steps;
  if (!list.IsSequence()) {
    file.Report(list, "", "steps: expected a list of steps, one dash each");
    return steps;
  }
  if (std::count(prefix.begin(), prefix.end(), '.') > kMaxRepeatDepth) {
    file.Report(list, "", "repeats are nested too deeply");
    return steps;
  }
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string number = prefix + std::to_string(i + 1);
    const size_t problems = file.problems.size();
    StepReader reader(list[i], number, file);
    Step step;
    step.line = reader.line();
    step.number = number;
    if (reader.verb() == nullptr) {
      step.readable = false;
      step.result = reader.Register("as");
      steps.push_back(std::move(step));
      continue;
    }
    step.summary = std::string(reader.verb()->name);
    if (reader.HasOperand() && reader.operand().IsScalar()) {
      step.summary += " " + reader.operand().Scalar();
    }
    step.action = ParseAction(reader, number, file);
    step.result = ResultName(reader);
    const bool is_repeat = std::holds_alternative<RepeatStep>(step.action);
    // The steps of a repeat know themselves which of them are not readable.
    step.readable = is_repeat || file.problems.size() == problems;
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace lockstep::cli::program
