#include "services/controller/roles.h"

#include "runtime/base/log.h"
#include "runtime/control/keys/gate.h"

namespace lockstep::controller {
namespace {

control::Role RoleFor(wire::ClientMessage::Which message) {
  switch (message) {
    case wire::ClientMessage::STATUS:
    case wire::ClientMessage::EXPLAIN:
    case wire::ClientMessage::LIST_REGISTERS:
      return control::Role::kReader;
    case wire::ClientMessage::SHUTDOWN:
      return control::Role::kOperator;
    default:
      // All others are about sessions; or have the cluster record, which costs it something.
      return control::Role::kClient;
  }
}

const char* What(wire::ClientMessage::Which message) {
  switch (message) {
    case wire::ClientMessage::SHUTDOWN:
      return "stop the cluster";
    case wire::ClientMessage::TRACE:
      return "have traces recorded";
    case wire::ClientMessage::END_SESSION:
      return "end sessions";
    default:
      return "have sessions";
  }
}

}  // namespace

StatusOr<Gates> OpenGates(const ControllerOptions& options) {
  if (options.key.empty() && options.allowed_keys.empty()) return Gates{};
  if (options.key.empty() || options.allowed_keys.empty()) {
    return InvalidArgument(
        "key and allowed_keys belong together: the controller's own key, and the list of those "
        "that may come in");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const control::KeyPair own, control::ReadOwnKey(options.key));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto file, control::AllowListFile::Open(options.allowed_keys));
  log::Info("tcp endpoints ask for keys; the controller's own is ", own.public_key.Text(), ", ",
            file->list()->all().size(), " may come in (", options.allowed_keys, ")");
  return Gates{std::make_shared<control::FileGate>(own, file, control::Role::kReader, "clients"),
               std::make_shared<control::FileGate>(own, file, control::Role::kWorker, "workers")};
}

Status CheckRole(const control::Identity* sender, wire::ClientMessage::Which message) {
  if (sender == nullptr) return OkStatus();
  const control::Role needed = RoleFor(message);
  if (control::Includes(sender->role, needed)) return OkStatus();
  return PermissionDenied("\"", sender->name, "\" has the key of a ", control::Name(sender->role),
                          ", and only that of a ", control::Name(needed), " may ", What(message));
}

}  // namespace lockstep::controller
