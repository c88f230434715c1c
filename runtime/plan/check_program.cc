#include "runtime/plan/check_program.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/rank_text.h"
#include "runtime/plan/chunks.h"

namespace lockstep::plan {
namespace {

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
    const std::vector<Rank> ranks = ValueOf(tensors.front()).layout.mesh().SortedRanks();
    for (const ValueId id : tensors) {
      const std::vector<Rank> others = ValueOf(id).layout.mesh().SortedRanks();
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

Status CheckProgram(const Program::Parts& parts, const std::vector<std::string>& value_names) {
  return Checker(parts, value_names).Run();
}

}  // namespace lockstep::plan
