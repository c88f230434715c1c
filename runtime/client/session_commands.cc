#include "runtime/client/session_commands.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "runtime/client/session_core.h"
#include "runtime/control/value_codec.h"

namespace lockstep::client {

namespace {

// Most bytes of text, bytes and tensors that one command moves by value. More would hold up
// all commands behind it, and the controller takes no message of any size.
constexpr size_t kMaxPayloadBytes = size_t{64} << 20;

// What of `argument` grows with the user's data.
size_t PayloadBytes(const Argument& argument) {
  switch (argument.kind()) {
    case Argument::Kind::kText:
      return argument.text().size();
    case Argument::Kind::kBytes:
      return argument.object<Bytes>().data.size();
    case Argument::Kind::kTensor:
      return argument.object<HostTensor>().data.size();
    case Argument::Kind::kValue:
      return control::PayloadBytes(argument.object<Value>());
    default:
      return 0;
  }
}

}  // namespace

Status CheckPayload(size_t bytes) {
  if (bytes <= kMaxPayloadBytes) [[likely]]
    return OkStatus();
  return InvalidArgument("at most ", kMaxPayloadBytes, " bytes travel by value, these are ", bytes,
                         "; use CopyToWorker0 and a collective");
}

namespace {

// Of a value that is not nested too deeply.
Status CheckParts(const SessionCore& core, const Value& value) {
  if (const auto* list = value.As<Value::List>()) {
    for (size_t i = 0; i < list->size(); ++i) {
      const Status status = CheckParts(core, (*list)[i]);
      if (!status.ok()) return Annotate(status, "item " + std::to_string(i + 1) + " of a list");
    }
  } else if (const auto* map = value.As<Value::Map>()) {
    for (const auto& [key, item] : *map) {
      const Status status = CheckParts(core, item);
      if (!status.ok()) return Annotate(status, "\"" + key + "\" of a map");
    }
  } else if (const auto* ref = value.As<RegisterRef>()) {
    if (ref->name != nullptr) return core.CheckOwn(*ref->name, "a register");
    if (ref->session != core.facts().id) {
      return InvalidArgument("a register (", ref->id, ") belongs to session ", ref->session,
                             ", not to this session ", core.facts().id);
    }
  } else if (const auto* id = value.As<RegisterId>()) {
    return InvalidArgument("the id ", *id,
                           " does not say of which session its register is; put the DRef itself "
                           "there");
  } else if (const auto* tensor = value.As<HostTensor>()) {
    return control::CheckHostTensor(*tensor);
  } else if (const auto* shape = value.As<Shape>()) {
    return shape->Validate();
  } else if (const auto* object = value.As<RemoteObject>()) {
    return InvalidArgument("<", object->description,
                           "> is only a description of what stays on its worker; put the DRef of "
                           "its register there");
  }
  return OkStatus();
}

Status CheckArgument(const SessionCore& core, const Argument& argument) {
  switch (argument.kind()) {
    case Argument::Kind::kTensor:
      return control::CheckHostTensor(argument.object<HostTensor>());
    case Argument::Kind::kShape:
      return argument.object<Shape>().Validate();
    case Argument::Kind::kValue:
      return CheckValue(core, argument.object<Value>());
    default:
      return OkStatus();
  }
}

}  // namespace

Status CheckValue(const SessionCore& core, const Value& value) {
  LOCKSTEP_RETURN_IF_ERROR(control::CheckDepth(value));
  return CheckParts(core, value);
}

// Kinds before kShape need no look.
static_assert(std::min({Argument::Kind::kShape, Argument::Kind::kDRef, Argument::Kind::kTensor,
                        Argument::Kind::kValue, Argument::Kind::kTooLarge}) ==
              Argument::Kind::kShape);

Status CheckArguments(const SessionCore& core, absl::Span<const Argument> arguments) {
  size_t payload_bytes = 0;
  for (const Argument& argument : arguments) {
    payload_bytes += PayloadBytes(argument);
    if (argument.kind() < Argument::Kind::kShape) [[likely]]
      continue;
    if (argument.kind() == Argument::Kind::kDRef) {
      LOCKSTEP_RETURN_IF_ERROR(core.CheckOwn(argument.object<DRef>(), "an argument"));
      continue;
    }
    if (argument.kind() == Argument::Kind::kTooLarge) {
      return InvalidArgument(
          "argument ", &argument - arguments.data() + 1, " is ",
          static_cast<uint64_t>(argument.integer()), ", but integers travel as int64, at most ",
          std::numeric_limits<int64_t>::max(), "; pass a double, or a uint64 tensor");
    }
    const Status status = CheckArgument(core, argument);
    if (status.ok()) [[likely]]
      continue;
    return Annotate(status, "argument " + std::to_string(&argument - arguments.data() + 1));
  }
  return CheckPayload(payload_bytes);
}

namespace {

void NoteGivenIn(SessionCore& core, const Value& value) {
  if (const auto* list = value.As<Value::List>()) {
    for (const Value& item : *list) NoteGivenIn(core, item);
  } else if (const auto* map = value.As<Value::Map>()) {
    for (const auto& [key, item] : *map) NoteGivenIn(core, item);
  } else if (const auto* ref = value.As<RegisterRef>()) {
    if (ref->name != nullptr) core.NoteGivenToFunction(*ref->name);
  }
}

}  // namespace

void NoteFunctionCall(SessionCore& core, absl::Span<const Argument> arguments) {
  core.NoteFunctionCall();
  for (const Argument& argument : arguments) {
    if (argument.kind() == Argument::Kind::kDRef) core.NoteGivenToFunction(argument.object<DRef>());
    if (argument.kind() == Argument::Kind::kValue) NoteGivenIn(core, argument.object<Value>());
  }
}

namespace {

// Who takes part, and the root.
Status CheckMembers(const SessionCore& core, const CollectiveCall& call,
                    const CollectiveOptions& options) {
  const int num_workers = core.facts().num_workers;
  if (options.in_group && !options.team.empty()) {
    return InvalidArgument("a collective is either in_group or in a team, not both");
  }
  std::vector<bool> seen(static_cast<size_t>(num_workers));
  for (Rank rank : options.team) {
    LOCKSTEP_RETURN_IF_ERROR(Annotate(core.CheckRank(rank), "the team"));
    if (seen[static_cast<size_t>(rank)]) {
      return InvalidArgument("the team names rank ", rank, " twice");
    }
    seen[static_cast<size_t>(rank)] = true;
  }
  const int size = !options.team.empty() ? static_cast<int>(options.team.size())
                   : options.in_group    ? num_workers / core.facts().num_groups
                                         : num_workers;
  if (call.root < 0 || call.root >= size) {
    return InvalidArgument("the root ", call.root, " is not among the ", size,
                           " ranks of the collective");
  }
  return OkStatus();
}

}  // namespace

StatusOr<DRef> IssueLoadModule(SessionCore& core, std::string_view path) {
  return core.IssueNaming([&](wire::Command::Builder command, RegisterId result) {
    auto load = command.initLoadModule();
    std::copy(path.begin(), path.end(), load.initPath(static_cast<unsigned>(path.size())).begin());
    load.setResult(result.Packed());
  });
}

StatusOr<DRef> IssueGetFunction(SessionCore& core, const DRef& module, std::string_view name) {
  if (!module.IsNull()) LOCKSTEP_RETURN_IF_ERROR(core.CheckOwn(module, "the module"));
  return core.IssueNaming([&](wire::Command::Builder command, RegisterId result) {
    auto get = command.initGetFunction();
    get.setModule(module.id().Packed());
    std::copy(name.begin(), name.end(), get.initName(static_cast<unsigned>(name.size())).begin());
    get.setResult(result.Packed());
  });
}

StatusOr<DRef> IssueEmpty(SessionCore& core, const Shape& shape, DType dtype,
                          std::optional<Rank> only_rank) {
  LOCKSTEP_RETURN_IF_ERROR(shape.Validate(SizeOf(dtype)));
  if (only_rank.has_value()) LOCKSTEP_RETURN_IF_ERROR(core.CheckRank(*only_rank));
  return core.IssueNaming([&](wire::Command::Builder command, RegisterId result) {
    command.setOnlyRank(only_rank.value_or(-1));
    auto empty = command.initEmpty();
    control::WriteDims(empty.initShape(static_cast<unsigned>(shape.ndim())), shape);
    empty.setDtype(control::ToWire(dtype));
    empty.setResult(result.Packed());
  });
}

Status CheckPlaces(const SessionCore& core, const CollectiveCall& call,
                   const CollectiveOptions& options) {
  if (!options.destination.IsNull()) {
    LOCKSTEP_RETURN_IF_ERROR(core.CheckOwn(options.destination, "the destination"));
  }
  return CheckMembers(core, call, options);
}

StatusOr<DRef> IssueCollective(SessionCore& core, const CollectiveCall& call,
                               const CollectiveOptions& options) {
  if (call.takes_source) LOCKSTEP_RETURN_IF_ERROR(core.CheckOwn(call.source, "the source"));
  LOCKSTEP_RETURN_IF_ERROR(CheckPlaces(core, call, options));

  const bool makes = call.gives_result && options.destination.IsNull();
  const auto write = [&](wire::Command::Builder command, RegisterId destination) {
    auto collective = command.initCollective();
    collective.setKind(control::ToWire(call.kind));
    collective.setOp(static_cast<wire::ReduceOp>(call.op));
    collective.setSource(call.source.id().Packed());
    collective.setDestination(destination.Packed());
    collective.setMakeDestination(makes);
    collective.setInGroup(options.in_group);
    collective.setRoot(call.root);
    collective.setPeer(call.peer);
    collective.setGivesSource(call.gives_source);
    if (!options.team.empty()) {
      auto team = collective.initTeam(static_cast<unsigned>(options.team.size()));
      for (unsigned i = 0; i < team.size(); ++i) team.set(i, options.team[i]);
    }
  };
  const OperationUse use{call.kind, options.in_group, options.team, call.root, call.peer};
  if (makes) return core.IssueOperationNaming(use, write, call.loan);
  // It will hold something else.
  if (!options.destination.IsNull()) core.SetLayout(options.destination, nullptr);
  LOCKSTEP_RETURN_IF_ERROR(core.IssueOperation(
      use, [&](wire::Command::Builder command) { write(command, options.destination.id()); },
      call.loan));
  return options.destination;
}

}  // namespace lockstep::client
