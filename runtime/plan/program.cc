#include "runtime/plan/program.h"

#include <algorithm>
#include <set>
#include <type_traits>

#include "runtime/plan/check_program.h"
#include "runtime/plan/chunks.h"

namespace lockstep::plan {
namespace {

std::string NameOf(const SourceLine& where) {
  const std::string_view path = where.file;
  if (path.empty()) return "";
  const size_t slash = path.rfind('/');
  const std::string_view file = slash == std::string_view::npos ? path : path.substr(slash + 1);
  return std::string(file) + ":" + std::to_string(where.line);
}

}  // namespace

std::optional<ProgramOp::Ends> ProgramOp::ends() const {
  return std::visit(
      []<typename Op>(const Op& op) -> std::optional<Ends> {
        if constexpr (std::is_same_v<Op, CallOp>) {
          return std::nullopt;
        } else {
          return Ends{op.source, op.result};
        }
      },
      what);
}

StatusOr<Program> Program::Make(Parts parts, const std::vector<std::string>& value_names) {
  bool has_chunks = false;
  for (const ProgramOp& op : parts.ops) {
    if (std::holds_alternative<ChunkOp>(op.what)) {
      return InvalidArgument(op.where, ": only lowering takes chunks of tensors");
    }
    const auto* const call = std::get_if<CallOp>(&op.what);
    has_chunks = has_chunks || (call != nullptr && call->chunks.has_value());
  }
  LOCKSTEP_ASSIGN_OR_RETURN(Program program, MakeLowered(std::move(parts), value_names));
  if (has_chunks) LOCKSTEP_RETURN_IF_ERROR(ChunkCalls(program).status());
  return program;
}

StatusOr<Program> Program::MakeLowered(Parts parts, const std::vector<std::string>& value_names) {
  LOCKSTEP_RETURN_IF_ERROR(CheckProgram(parts, value_names));
  return Program(std::move(parts));
}

std::vector<Rank> Program::RanksOf(const CallOp& call) const {
  ValueId tensor = call.result;
  for (const CallArgument& argument : call.arguments) {
    if (argument.use != CallArgument::Use::kLiteral) tensor = argument.value;
  }
  return value(tensor).layout.mesh().SortedRanks();
}

std::vector<bool> Program::WrittenValues() const {
  std::vector<bool> is_written(parts_.values.size(), false);
  for (const ProgramOp& op : parts_.ops) {
    const auto* call = std::get_if<CallOp>(&op.what);
    if (call == nullptr) continue;
    for (const CallArgument& argument : call->arguments) {
      if (argument.writes()) is_written[static_cast<size_t>(argument.value)] = true;
    }
  }
  return is_written;
}

std::vector<Rank> Program::Ranks() const {
  std::set<Rank> ranks;
  for (const ProgramValue& one : parts_.values) {
    ranks.insert(one.layout.mesh().ranks().begin(), one.layout.mesh().ranks().end());
  }
  return {ranks.begin(), ranks.end()};
}

ValueId ProgramBuilder::Add(std::string name, const Layout& layout) {
  parts_.values.push_back({std::move(name), layout});
  return static_cast<ValueId>(parts_.values.size() - 1);
}

int ProgramBuilder::FunctionNumber(std::string_view name) {
  std::vector<std::string>& functions = parts_.functions;
  const auto known = std::find(functions.begin(), functions.end(), name);
  const auto number = static_cast<int>(known - functions.begin());
  if (known == functions.end()) functions.emplace_back(name);
  return number;
}

ValueId ProgramBuilder::Input(std::string_view name, const Layout& layout) {
  parts_.inputs.push_back(Add(std::string(name), layout));
  return parts_.inputs.back();
}

ValueId ProgramBuilder::Make(const Layout& layout) { return Add("", layout); }

ValueId ProgramBuilder::Call(std::string_view function, std::vector<CallArgument> arguments,
                             const Layout& result, SourceLine where) {
  const ValueId returned = Add("", result);
  parts_.ops.push_back(
      {CallOp{FunctionNumber(function), std::move(arguments), returned}, NameOf(where)});
  return returned;
}

ValueId ProgramBuilder::CallInChunks(std::string_view function, std::vector<CallArgument> arguments,
                                     const Layout& result, const Chunks& chunks, SourceLine where) {
  const ValueId returned = Call(function, std::move(arguments), result, where);
  std::get<CallOp>(parts_.ops.back().what).chunks = chunks;
  return returned;
}

void ProgramBuilder::Call(std::string_view function, std::vector<CallArgument> arguments,
                          SourceLine where) {
  parts_.ops.push_back(
      {CallOp{FunctionNumber(function), std::move(arguments), kNoValue}, NameOf(where)});
}

ValueId ProgramBuilder::Reshard(ValueId source, const Layout& layout, SourceLine where) {
  const ValueId result = Add("", layout);
  parts_.ops.push_back({ReshardOp{source, result}, NameOf(where)});
  return result;
}

ValueId ProgramBuilder::Copy(ValueId source, SourceLine where) {
  return As(source, LayoutOf(source), where);
}

ValueId ProgramBuilder::As(ValueId source, const Layout& layout, SourceLine where) {
  const ValueId result = Add("", layout);
  parts_.ops.push_back({ViewOp{source, result}, NameOf(where)});
  return result;
}

ValueId ProgramBuilder::AllReduce(ValueId source, std::string_view axis, Reduction op,
                                  SourceLine where) {
  return Do({.kind = OperationKind::kAllReduce, .axis = std::string(axis), .op = op}, source,
            where);
}

ValueId ProgramBuilder::ReduceScatter(ValueId source, std::string_view axis, int dim, Reduction op,
                                      SourceLine where) {
  return Do(
      {.kind = OperationKind::kReduceScatter, .axis = std::string(axis), .dim = dim, .op = op},
      source, where);
}

ValueId ProgramBuilder::AllGather(ValueId source, std::string_view axis, SourceLine where) {
  return Do({.kind = OperationKind::kAllGather, .axis = std::string(axis)}, source, where);
}

ValueId ProgramBuilder::AllToAll(ValueId source, std::string_view axis, int dim, SourceLine where) {
  return Do({.kind = OperationKind::kAllToAll, .axis = std::string(axis), .dim = dim}, source,
            where);
}

ValueId ProgramBuilder::Broadcast(ValueId source, std::string_view axis, int root,
                                  SourceLine where) {
  return Do({.kind = OperationKind::kBroadcast, .axis = std::string(axis), .root = root}, source,
            where);
}

// What cannot be has some layout: Build() tells the error, in the order of the operations.
ValueId ProgramBuilder::Do(Collective what, ValueId source, SourceLine where) {
  const Layout layout = LayoutOf(source);
  const StatusOr<CollectiveLayouts> layouts = LayoutsOf(what, layout);
  const ValueId result = Add("", layouts.ok() ? layouts->result : layout);
  parts_.ops.push_back({CollectiveOp{std::move(what), source, result}, NameOf(where)});
  return result;
}

Layout ProgramBuilder::LayoutOf(ValueId value) const {
  const auto number = static_cast<size_t>(value);
  if (number < parts_.values.size()) return parts_.values[number].layout;
  return *Layout::Make({}, DType::kUInt8, *Mesh::Line({0}), {Placement::Replicate()});
}

void ProgramBuilder::Output(std::string_view name, ValueId value) {
  parts_.outputs.push_back(value);
  const auto number = static_cast<size_t>(value);
  // What there is not is told by Build(); an input keeps its name, and is told there, too.
  if (number >= parts_.values.size() || !parts_.values[number].name.empty()) return;
  parts_.values[number].name = name;
}

}  // namespace lockstep::plan
