#include "tools/cli/plan/plan_steps.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "runtime/base/dtype.h"
#include "runtime/base/quantity.h"
#include "runtime/base/shape.h"
#include "runtime/plan/layout.h"
#include "tools/cli/argument.h"
#include "tools/cli/plan/builtin_names.h"
#include "tools/cli/plan/plan_collective.h"
#include "tools/cli/plan/plan_fragment.h"
#include "tools/cli/program/step_reader.h"
#include "tools/text/format.h"

namespace lockstep::cli::plan_file {

using plan::CallArgument;
using plan::Layout;
using plan::ValueId;

// In place of a module's register, of which it is no name.
constexpr char kOfFragment[] = "/";

PlanSteps::PlanSteps(const YAML::Node& plan, const PlanLayouts& layouts, PlanContext& context)
    : layouts_(layouts), context_(context) {
  context.ReadEach(plan["inputs"], "inputs", [&](const std::string& name, const YAML::Node& node) {
    const Layout* const layout = layouts.Find(node, node, "inputs." + name);
    if (layout != nullptr) Hold(name, builder_.Input(name, *layout));
    return layout != nullptr;
  });
  const YAML::Node steps = plan["steps"];
  if (!steps.IsDefined() || !steps.IsSequence()) {
    context.Report(plan, "plan", "the list \"steps\" is missing");
  } else {
    size_t operations = 0;
    for (const YAML::Node& step : steps) {
      if (!step.IsMap() || !step["make"].IsDefined()) ++operations;
      if (!CheckCount(operations, step)) return;
      ReadStep(step);
    }
  }
  ReadOutputs(plan["outputs"]);
}

// Reports the first step that is too many.
bool PlanSteps::CheckCount(size_t operations, const YAML::Node& step) {
  const bool is_op = operations > plan::Program::kMaxOps;
  if (!is_op && value_names_.size() < plan::Program::kMaxValues) return true;
  context_.Report(step, "plan",
                  "a program has at most " +
                      (is_op ? text::FormatCount(plan::Program::kMaxOps) + " operations"
                             : text::FormatCount(plan::Program::kMaxValues) + " values") +
                      ", and this step is one more; make several programs of it");
  return false;
}

void PlanSteps::Hold(const std::string& name, ValueId id) {
  values_[name] = id;
  value_names_.resize(std::max(value_names_.size(), static_cast<size_t>(id) + 1));
  value_names_[static_cast<size_t>(id)] = name;
}

std::optional<ValueId> PlanSteps::FindValue(const YAML::Node& at, const std::string& title,
                                            const std::string& name) {
  const auto found = values_.find(name);
  if (found != values_.end()) return found->second;
  context_.ReportMissing(at, title, "value", name, NamesOf(values_));
  return std::nullopt;
}

void PlanSteps::ReadStep(const YAML::Node& step) {
  const std::string result = step.IsMap() ? ScalarOf(step["as"]) : "";
  const size_t known = value_names_.size();
  ReadAnyStep(step);
  if (!result.empty() && value_names_.size() == known) context_.NoteUnread(result);
}

void PlanSteps::ReadAnyStep(const YAML::Node& step) {
  const plan::SourceLine where{context_.file().file.c_str(), step.Mark().line + 1};
  if (!step.IsMap()) return context_.Report(step, "steps", "expected a map");
  if (step["call"].IsDefined()) return ReadCall(step, where);
  if (step["fragment"].IsDefined()) return ReadFragment(step, where);
  if (step["reshard"].IsDefined()) return ReadReshard(step, where);
  if (step["make"].IsDefined()) return ReadMake(step);
  if (step["copy"].IsDefined()) return ReadCopy(step, where);
  if (step["view"].IsDefined()) return ReadView(step, where);
  std::string known = "call, fragment, reshard, make, copy, view";
  for (const OperationKind kind : PlanCollectives()) {
    const std::string label(FactsOf(kind).label);
    if (step[label].IsDefined()) return ReadCollectiveStep(step, kind, where);
    known += ", " + label;
  }
  context_.Report(step, "steps", "expected one of the keys " + known);
}

void PlanSteps::ReadCopy(const YAML::Node& step, plan::SourceLine where) {
  context_.CheckKeys(step, "copy", {"copy", "as"});
  const auto source = FindValue(step, "copy", ScalarOf(step["copy"]));
  if (source.has_value()) HoldResult(step, builder_.Copy(*source, where));
}

void PlanSteps::ReadView(const YAML::Node& step, plan::SourceLine where) {
  context_.CheckKeys(step, "view", {"view", "to", "as"});
  const auto source = FindValue(step, "view", ScalarOf(step["view"]));
  const Layout* const to = layouts_.Find(step["to"], step, "view: to");
  if (source.has_value() && to != nullptr) HoldResult(step, builder_.As(*source, *to, where));
}

void PlanSteps::ReadCollectiveStep(const YAML::Node& step, OperationKind kind,
                                   plan::SourceLine where) {
  const std::string label(FactsOf(kind).label);
  context_.CheckKeys(step, label, KeysOfCollective(kind));
  const std::string name = ScalarOf(step[label]);
  const auto source = FindValue(step, label, name);
  if (!source.has_value()) return;
  auto collective =
      ReadCollective(step, kind, name, builder_.LayoutOf(*source).mesh(), context_.file());
  if (collective.has_value()) {
    HoldResult(step, builder_.Do(*std::move(collective), *source, where));
  }
}

void PlanSteps::ReadReshard(const YAML::Node& step, plan::SourceLine where) {
  context_.CheckKeys(step, "reshard", {"reshard", "to", "as"});
  const auto source = FindValue(step, "reshard", ScalarOf(step["reshard"]));
  const Layout* const to = layouts_.Find(step["to"], step, "reshard: to");
  if (source.has_value() && to != nullptr) {
    HoldResult(step, builder_.Reshard(*source, *to, where));
  }
}

void PlanSteps::ReadMake(const YAML::Node& step) {
  context_.CheckKeys(step, "make", {"make", "as"});
  const Layout* const layout = layouts_.Find(step["make"], step, "make");
  if (layout != nullptr) HoldResult(step, builder_.Make(*layout));
}

void PlanSteps::HoldResult(const YAML::Node& step, ValueId id) {
  const std::string name = ScalarOf(step["as"]);
  if (name.empty()) return context_.Report(step, "as", "expected a name, as in \"as: y\"");
  if (!program::IsRegisterName(name)) {
    return context_.Report(step["as"], "as", program::WhyNoName(name));
  }
  Hold(name, id);
}

void PlanSteps::ReadCall(const YAML::Node& step, plan::SourceLine where) {
  context_.CheckKeys(step, "call", {"call", "module", "args", "result", "as", "chunks"});
  const std::string function = ScalarOf(step["call"]);
  if (!step["module"].IsDefined()) {
    const Status known = CheckBuiltinName(function);
    if (!known.ok()) context_.Report(step["call"], "call", Message(known));
  }
  ReadModule(step, function);
  std::vector<CallArgument> arguments;
  bool is_complete =
      context_.CheckList(step["args"], function, "args: expected a list, as in [$x, 0.5]");
  if (!is_complete) return context_.NoteUnread(ScalarOf(step["as"]));
  for (const YAML::Node& node : step["args"]) {
    auto argument = ReadCallArgument(node, function);
    is_complete = is_complete && argument.has_value();
    if (argument.has_value()) arguments.push_back(*std::move(argument));
  }
  if (!step["result"].IsDefined()) {
    if (step["as"].IsDefined()) {
      context_.Report(step, function, "\"as\" names a result, whose layout \"result\" is missing");
    }
    if (step["chunks"].IsDefined()) {
      context_.Report(step, function,
                      "it returns nothing that could be put together of \"chunks\"");
    }
    if (is_complete) builder_.Call(function, std::move(arguments), where);
    return;
  }
  const Layout* const result = layouts_.Find(step["result"], step, function + ": result");
  if (result == nullptr || !is_complete) return;
  if (!step["chunks"].IsDefined()) {
    return HoldResult(step, builder_.Call(function, std::move(arguments), *result, where));
  }
  const auto chunks = ReadChunks(step, function, arguments);
  if (!chunks.has_value()) return;
  HoldResult(step, builder_.CallInChunks(function, std::move(arguments), *result, *chunks, where));
}

// {fragment: f.mlir, args: [rows $x, 0.5], results: [{as: y, shape: [64], dtype: f64}], on: all}
void PlanSteps::ReadFragment(const YAML::Node& step, plan::SourceLine where) {
  context_.CheckKeys(step, "fragment", {"fragment", "args", "results", "on"});
  const std::string name = ScalarOf(step["fragment"]);
  const auto path = FindFragmentFile(step["fragment"], context_);
  const auto inputs = ReadFragmentInputs(step, name);
  const auto results = ReadFragmentResults(step, name, context_);
  std::vector<Rank> workers = layouts_.Ranks();
  bool is_good = path.has_value() && inputs.has_value() && results.has_value();
  if (step["on"].IsDefined()) {
    const plan::Mesh* const mesh = layouts_.FindMesh(step["on"], name + ": on");
    if (mesh != nullptr) workers = mesh->SortedRanks();
    is_good = is_good && mesh != nullptr;
  }
  const auto [known, is_new] = module_of_.emplace(name, kOfFragment);
  if (known->second != kOfFragment) {
    context_.Report(step["fragment"], name, "another step calls a function of this name");
    is_good = false;
  }
  std::optional<fragment::PlanCall> call;
  if (is_good) {
    fragments_.emplace(name, *path);
    std::vector<fragment::Output> outputs;
    for (const NamedOutput& result : *results) outputs.push_back(result.output);
    call =
        context_.Check(step, name, CallAsStated(builder_, name, workers, *inputs, outputs, where));
  }
  if (!call.has_value()) {
    if (!results.has_value()) return;
    for (const NamedOutput& result : *results) context_.NoteUnread(result.name);
    return;
  }
  NameMoved(*inputs, *call);
  for (size_t i = 0; i < results->size(); ++i) Hold((*results)[i].name, call->results[i]);
}

void PlanSteps::NameMoved(absl::Span<const fragment::PlanInput> inputs,
                          const fragment::PlanCall& call) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueId moved = call.arguments[i];
    if (inputs[i].value() == nullptr || moved == *inputs[i].value()) continue;
    const auto source = static_cast<size_t>(*inputs[i].value());
    value_names_.resize(std::max(value_names_.size(), static_cast<size_t>(moved) + 1));
    // No name that a file can give.
    value_names_[static_cast<size_t>(moved)] =
        value_names_[source] + "." + std::string(fragment::Name(inputs[i].split()));
  }
}

// "$x", "rows $x", "columns $x", "none $x", "placed $x", or a number.
std::optional<std::vector<fragment::PlanInput>> PlanSteps::ReadFragmentInputs(
    const YAML::Node& step, const std::string& title) {
  if (!context_.CheckList(step["args"], title, "args: expected a list, as in [rows $x, 0.5]")) {
    return std::nullopt;
  }
  std::vector<fragment::PlanInput> inputs;
  bool is_good = true;
  for (const YAML::Node& node : step["args"]) {
    if (const auto split = ReadSplit(ScalarOf(node))) {
      if (!split->ok()) context_.Report(node, title, std::string(split->status().message()));
      const auto value = split->ok() ? FindValue(node, title, (*split)->name) : std::nullopt;
      if (value.has_value()) inputs.emplace_back(*value, (*split)->split);
      is_good = is_good && value.has_value();
      continue;
    }
    auto argument = ReadCallArgument(node, title);
    if (argument.has_value() && argument->use != CallArgument::Use::kLiteral) {
      context_.Report(node, title, "a fragment only reads what it is given: rows $x, or $x");
      argument.reset();
    }
    if (argument.has_value()) inputs.emplace_back(std::move(argument->literal));
    is_good = is_good && argument.has_value();
  }
  if (!is_good) return std::nullopt;
  return inputs;
}

// {count: 4, input: x, along: 0, result_along: 0}
std::optional<plan::Chunks> PlanSteps::ReadChunks(const YAML::Node& step,
                                                  const std::string& function,
                                                  const std::vector<CallArgument>& arguments) {
  const YAML::Node node = step["chunks"];
  if (!node.IsMap()) {
    context_.Report(node, function, "chunks: expected a map, as in {count: 4, input: x, along: 0}");
    return std::nullopt;
  }
  context_.CheckKeys(node, function + ": chunks", {"count", "input", "along", "result_along"});
  plan::Chunks chunks;
  bool is_good = true;
  const auto read_number = [&](const char* key, int& number) {
    const StatusOr<int64_t> read = ParseInteger(ScalarOf(node[key]));
    if (read.ok() && *read >= 0 && *read <= std::numeric_limits<int>::max()) {
      number = static_cast<int>(*read);
      return;
    }
    context_.Report(node, function,
                    std::string("chunks: ") + key + ": expected a number, as in " + key + ": 2");
    is_good = false;
  };
  read_number("count", chunks.count);
  if (node["along"].IsDefined()) read_number("along", chunks.along);
  chunks.result_along = chunks.along;
  if (node["result_along"].IsDefined()) read_number("result_along", chunks.result_along);
  if (!node["input"].IsDefined()) {
    context_.Report(node, function, "chunks: input: expected one of its args, as in input: x");
    return std::nullopt;
  }
  const auto input = FindValue(node, function + ": chunks: input", ScalarOf(node["input"]));
  if (!input.has_value()) return std::nullopt;
  const auto argument = std::find_if(arguments.begin(), arguments.end(), [&](const auto& one) {
    return one.use != CallArgument::Use::kLiteral && one.value == *input;
  });
  if (argument == arguments.end()) {
    context_.Report(node, function,
                    "chunks: input: " + ScalarOf(node["input"]) + " is none of its args");
    is_good = false;
  }
  chunks.argument = static_cast<int>(argument - arguments.begin());
  if (!is_good) return std::nullopt;
  return chunks;
}

// A program knows functions by their names alone.
void PlanSteps::ReadModule(const YAML::Node& step, const std::string& function) {
  const std::string module = ScalarOf(step["module"]);
  if (step["module"].IsDefined() && !program::IsRegisterName(module)) {
    return context_.Report(
        step["module"], function,
        "module: expected the register of a module; " + program::WhyNoName(module));
  }
  const auto [known, is_new] = module_of_.emplace(function, module);
  if (known->second != module) {
    return context_.Report(step, function,
                           "another step calls the function of this name from " +
                               (known->second.empty()          ? "no module"
                                : known->second == kOfFragment ? "a fragment's file"
                                                               : "module " + known->second));
  }
  if (is_new && !module.empty()) modules_.emplace(function, module);
}

// "$x", "write $x", "update $x", or a literal.
std::optional<CallArgument> PlanSteps::ReadCallArgument(const YAML::Node& node,
                                                        const std::string& title) {
  const std::string text = ScalarOf(node);
  using Make = CallArgument (*)(ValueId);
  const std::pair<std::string_view, Make> uses[] = {
      {"$", plan::Read}, {"write $", plan::Write}, {"update $", plan::Update}};
  for (const auto& [prefix, make] : uses) {
    if (!text.starts_with(prefix)) continue;
    const auto value = FindValue(node, title, text.substr(prefix.size()));
    if (!value.has_value()) return std::nullopt;
    return make(*value);
  }
  StatusOr<Value> read = ReadValue(node, context_.file().directory);
  if (!read.ok() && values_.contains(text)) {
    read = InvalidArgument("\"", text, "\" is a value of the plan: write $", text);
  }
  const auto value = context_.Check(node, title, std::move(read));
  if (!value.has_value()) return std::nullopt;
  if (const auto* it = value->As<bool>()) return plan::Pass(*it);
  if (const auto* it = value->As<int64_t>()) return plan::Pass(*it);
  if (const auto* it = value->As<double>()) return plan::Pass(*it);
  if (const auto* it = value->As<std::string>()) return plan::Pass(*it);
  if (const auto* it = value->As<Shape>()) return plan::Pass(*it);
  if (const auto* it = value->As<DType>()) return plan::Pass(*it);
  context_.Report(node, title,
                  "expected a value as in $x, a number, text, a truth value, a shape or a dtype");
  return std::nullopt;
}

void PlanSteps::ReadOutputs(const YAML::Node& node) {
  if (!node.IsDefined()) return;
  if (!node.IsSequence()) {
    return context_.Report(node, "plan", "outputs: expected a list of values, as in [y, z]");
  }
  for (const YAML::Node& item : node) {
    const std::string name = ScalarOf(item);
    outputs_.push_back(name);
    const auto value = FindValue(item, "outputs", name);
    if (!value.has_value()) continue;
    if (!output_nodes_.emplace(name, item).second) {
      context_.Report(item, "outputs", "\"" + name + "\" is given twice");
    } else {
      builder_.Output(name, *value);
    }
  }
}

YAML::Node PlanSteps::FindOutput(const std::string& name) const {
  const auto found = output_nodes_.find(name);
  return found == output_nodes_.end() ? YAML::Node(YAML::NodeType::Undefined) : found->second;
}

}  // namespace lockstep::cli::plan_file
