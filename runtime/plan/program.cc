#include "runtime/plan/program.h"

#include <algorithm>
#include <set>
#include <type_traits>

#include "runtime/base/rank_text.h"
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

std::vector<Rank> Sorted(absl::Span<const Rank> ranks) {
  std::vector<Rank> sorted(ranks.begin(), ranks.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

// Checks the operations in their order.
class Checker {
 public:
  Checker(const Program::Parts& parts, const std::vector<std::string>& value_names)
      : parts_(parts),
        value_names_(value_names),
        is_written_(parts.values.size(), false),
        is_made_(parts.values.size(), false) {}

  Status Run() {
    LOCKSTEP_RETURN_IF_ERROR(CheckSizes());
    LOCKSTEP_RETURN_IF_ERROR(CheckInputs());
    for (const ProgramOp& op : parts_.ops) {
      const Status status = std::visit([&](const auto& what) { return Check(what); }, op.what);
      if (!status.ok()) return Annotate(status, op.where);
    }
    return CheckOutputs();
  }

 private:
  Status CheckSizes() const {
    if (parts_.ops.size() > Program::kMaxOps) {
      return InvalidArgument("a program has at most ", Program::kMaxOps, " operations, this one ",
                             parts_.ops.size());
    }
    if (parts_.values.size() > Program::kMaxValues) {
      return InvalidArgument("a program has at most ", Program::kMaxValues, " values, this one ",
                             parts_.values.size());
    }
    return OkStatus();
  }

  Status CheckNames(const std::vector<ValueId>& values, const char* what) const {
    std::set<std::string_view> names;
    std::set<ValueId> seen;
    for (const ValueId id : values) {
      LOCKSTEP_RETURN_IF_ERROR(CheckExists(id));
      const std::string& name = ValueOf(id).name;
      if (name.empty()) return InvalidArgument("an ", what, " of a program has no name");
      if (!seen.insert(id).second) {
        return InvalidArgument("one value is named as ", what, " twice; the first name is \"", name,
                               "\"");
      }
      if (!names.insert(name).second) {
        return InvalidArgument("two ", what, "s of a program are called \"", name, "\"");
      }
    }
    return OkStatus();
  }

  Status CheckInputs() {
    LOCKSTEP_RETURN_IF_ERROR(CheckNames(parts_.inputs, "input"));
    for (const ValueId id : parts_.inputs) {
      is_written_[static_cast<size_t>(id)] = true;
      is_made_[static_cast<size_t>(id)] = true;
    }
    return OkStatus();
  }

  Status CheckOutputs() const {
    LOCKSTEP_RETURN_IF_ERROR(CheckNames(parts_.outputs, "output"));
    for (const ValueId id : parts_.outputs) {
      LOCKSTEP_RETURN_IF_ERROR(Annotate(CheckReadable(id), "output \"" + ValueOf(id).name + "\""));
      if (std::find(parts_.inputs.begin(), parts_.inputs.end(), id) == parts_.inputs.end()) {
        continue;
      }
      return InvalidArgument("output \"", ValueOf(id).name,
                             "\" is an input: the caller has its register");
    }
    return OkStatus();
  }

  const ProgramValue& ValueOf(ValueId id) const { return parts_.values[static_cast<size_t>(id)]; }

  // Of a value that there is: "value \"x\"", or "value 3" if it has no name.
  std::string Describe(ValueId id) const {
    const auto number = static_cast<size_t>(id);
    std::string name = number < value_names_.size() ? value_names_[number] : "";
    if (name.empty()) name = ValueOf(id).name;
    return "value " + (name.empty() ? std::to_string(number) : "\"" + name + "\"");
  }

  Status CheckExists(ValueId id) const {
    const int number = static_cast<int>(id);
    if (number >= 0 && static_cast<size_t>(number) < parts_.values.size()) return OkStatus();
    return InvalidArgument("there is no value ", number, " in this program");
  }
  Status CheckReadable(ValueId id) const {
    LOCKSTEP_RETURN_IF_ERROR(CheckExists(id));
    if (is_written_[static_cast<size_t>(id)]) return OkStatus();
    return InvalidArgument(Describe(id), " is read before anything was written to it");
  }
  // What an operation returns is a value of its own.
  Status MakeResult(ValueId id) {
    LOCKSTEP_RETURN_IF_ERROR(CheckExists(id));
    const auto number = static_cast<size_t>(id);
    if (is_made_[number] || is_written_[number]) {
      return InvalidArgument(Describe(id), " is the result of two operations");
    }
    is_made_[number] = true;
    is_written_[number] = true;
    return OkStatus();
  }

  Status Check(const CallOp& call) {
    const auto function = static_cast<size_t>(call.function);
    if (call.function < 0 || function >= parts_.functions.size()) {
      return InvalidArgument("there is no function ", call.function, " in this program");
    }
    if (parts_.functions[function].empty()) return InvalidArgument("a function without a name");
    if (call.arguments.size() > Program::kMaxArguments) {
      return InvalidArgument("a call has at most ", Program::kMaxArguments, " arguments, this one ",
                             call.arguments.size());
    }
    Status status = CheckTensors(call);
    if (status.ok() && call.chunks.has_value()) status = CheckChunks(*call.chunks, call);
    return Annotate(status, parts_.functions[function]);
  }

  // Each by itself; ChunkCalls() has the whole program.
  Status CheckChunks(const Chunks& chunks, const CallOp& call) const {
    if (chunks.count < 1 || chunks.count > Chunks::kMost) {
      return InvalidArgument("a call is done in 1 to ", Chunks::kMost, " chunks, not ",
                             chunks.count);
    }
    const auto number = static_cast<size_t>(chunks.argument);
    if (chunks.argument < 0 || number >= call.arguments.size() ||
        call.arguments[number].use == CallArgument::Use::kLiteral) {
      return InvalidArgument("the argument of its chunks, number ", chunks.argument,
                             " from 0 on, is no tensor");
    }
    for (const CallArgument& argument : call.arguments) {
      if (!argument.writes()) continue;
      return InvalidArgument(
          "it writes to an argument, and is called for one chunk after the "
          "other: let it return what it computes");
    }
    if (call.result == kNoValue) {
      return InvalidArgument("it returns nothing that could be put together of chunks");
    }
    LOCKSTEP_RETURN_IF_ERROR(
        CheckDimension(chunks.along, call.arguments[number].value, "its argument"));
    return CheckDimension(chunks.result_along, call.result, "its result");
  }
  Status CheckDimension(int dim, ValueId id, const char* what) const {
    const Shape& shape = ValueOf(id).layout.shape();
    if (dim >= 0 && dim < shape.ndim()) return OkStatus();
    return InvalidArgument("it cannot be done in chunks along dimension ", dim, " of ", what,
                           ", which is ", shape);
  }

  Status CheckTensors(const CallOp& call) {
    std::vector<ValueId> written;
    std::vector<ValueId> tensors;
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      const CallArgument& argument = call.arguments[i];
      if (argument.use == CallArgument::Use::kLiteral) continue;
      const Status status =
          argument.reads() ? CheckReadable(argument.value) : CheckExists(argument.value);
      if (!status.ok()) return Annotate(status, "argument " + std::to_string(i + 1));
      if (argument.writes()) written.push_back(argument.value);
      tensors.push_back(argument.value);
    }
    for (const ValueId id : written) {
      if (std::count(tensors.begin(), tensors.end(), id) == 1) continue;
      return InvalidArgument(Describe(id), " is written, and is another argument, too");
    }
    for (const ValueId id : written) is_written_[static_cast<size_t>(id)] = true;
    if (call.result != kNoValue) {
      LOCKSTEP_RETURN_IF_ERROR(MakeResult(call.result));
      tensors.push_back(call.result);
    }
    if (tensors.empty()) {
      return InvalidArgument("a call without tensors: which ranks execute it is not known");
    }
    const std::vector<Rank> ranks = Sorted(ValueOf(tensors.front()).layout.mesh().ranks());
    for (const ValueId id : tensors) {
      const std::vector<Rank> others = Sorted(ValueOf(id).layout.mesh().ranks());
      if (others == ranks) continue;
      return InvalidArgument("its tensors are held by different ranks: ", ListRanks(ranks),
                             ", and ", ListRanks(others), "; reshard one of them first");
    }
    return OkStatus();
  }

  Status Check(const ReshardOp& reshard) {
    LOCKSTEP_RETURN_IF_ERROR(CheckReadable(reshard.source));
    LOCKSTEP_RETURN_IF_ERROR(MakeResult(reshard.result));
    return CheckReshard(ValueOf(reshard.source).layout, ValueOf(reshard.result).layout);
  }

  Status Check(const ViewOp& view) {
    LOCKSTEP_RETURN_IF_ERROR(CheckReadable(view.source));
    LOCKSTEP_RETURN_IF_ERROR(MakeResult(view.result));
    return Annotate(CheckSameTiles(ValueOf(view.source).layout, ValueOf(view.result).layout),
                    "a view keeps each rank's tile");
  }

  Status Check(const CollectiveOp& op) {
    LOCKSTEP_RETURN_IF_ERROR(CheckReadable(op.source));
    LOCKSTEP_RETURN_IF_ERROR(MakeResult(op.result));
    const Layout& source = ValueOf(op.source).layout;
    LOCKSTEP_ASSIGN_OR_RETURN(const CollectiveLayouts layouts, LayoutsOf(op.what, source));
    const Layout& result = ValueOf(op.result).layout;
    if (layouts.result == result) return OkStatus();
    return InvalidArgument(op.what.ToString(), ": it makes ", layouts.result, " of ", source,
                           ", and its result is ", result);
  }

  Status Check(const ChunkOp& op) {
    LOCKSTEP_RETURN_IF_ERROR(CheckReadable(op.source));
    LOCKSTEP_RETURN_IF_ERROR(CheckExists(op.result));
    if (op.puts) {
      is_written_[static_cast<size_t>(op.result)] = true;
    } else {
      LOCKSTEP_RETURN_IF_ERROR(MakeResult(op.result));
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const Layout wanted,
                              op.cut->ChunkOf({&ValueOf(op.whole()).layout, op.dim}, op.number));
    if (wanted == ValueOf(op.chunk()).layout) return OkStatus();
    return InvalidArgument("a chunk of ", ValueOf(op.whole()).layout, " is ", wanted, ", not ",
                           ValueOf(op.chunk()).layout);
  }

  const Program::Parts& parts_;
  const std::vector<std::string>& value_names_;
  std::vector<bool> is_written_;  // something was written to it
  std::vector<bool> is_made_;     // as an input, or as a result
};

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
  LOCKSTEP_RETURN_IF_ERROR(Checker(parts, value_names).Run());
  return Program(std::move(parts));
}

std::vector<Rank> Program::RanksOf(const CallOp& call) const {
  ValueId tensor = call.result;
  for (const CallArgument& argument : call.arguments) {
    if (argument.use != CallArgument::Use::kLiteral) tensor = argument.value;
  }
  return Sorted(value(tensor).layout.mesh().ranks());
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
