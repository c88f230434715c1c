#include "services/controller/sessions/fragment_grants.h"

#include <algorithm>
#include <string>

#include "runtime/control/batch.h"
#include "runtime/fragment/fragment.h"

namespace lockstep::controller {
namespace {

// Before the workers get it. What it means they say.
Status CheckSize(wire::CompileFragment::Reader compile, size_t source_bytes) {
  using fragment::Fragment;
  if (source_bytes > Fragment::kMaxSourceBytes) {
    return InvalidArgument("a fragment has at most ", Fragment::kMaxSourceBytes,
                           " bytes, and this one ", source_bytes);
  }
  const size_t longest = std::max(compile.getName().size(), compile.getEntry().size());
  if (longest <= Fragment::kMaxNameBytes) return OkStatus();
  return InvalidArgument("a fragment's name has at most ", Fragment::kMaxNameBytes,
                         " bytes, and this one ", longest);
}

}  // namespace

Status FragmentGrants::CheckRole(const control::Identity* sender) const {
  const std::string& allowed = tools_.options.fragments;
  if (allowed == "off") {
    return PermissionDenied("fragments are off in this cluster (the controller's `fragments`)");
  }
  if (sender == nullptr || allowed == "client" ||
      control::Includes(sender->role, control::Role::kOperator)) {
    return OkStatus();
  }
  return PermissionDenied("\"", sender->name, "\" has the key of a ", control::Name(sender->role),
                          ", and a fragment is native code: only that of an operator may send any "
                          "(the controller's `fragments`)");
}

Status FragmentGrants::CheckRoom(SessionId session, size_t bytes) {
  size_t count = 0;
  size_t sum = bytes;
  for (auto it = loading_.begin(); it != loading_.end();) {
    const auto& [key, loading] = *it;
    if (loading.world != tools_.membership.epoch() || sessions_.Find(key.first) == nullptr) {
      it = loading_.erase(it);
      continue;
    }
    if (key.first == session) {
      ++count;
      sum += loading.bytes;
    }
    ++it;
  }
  if (count < kMostLoading && sum <= kMostLoadingBytes) return OkStatus();
  return ResourceExhausted("session ", session, " has ", count, " fragments of ", sum - bytes,
                           " bytes under way to the compilers already: wait for an answer");
}

Status FragmentGrants::CheckFree(SessionId session, RequestId request) const {
  if (loading_.empty() || !loading_.contains({session, request})) return OkStatus();
  return InvalidArgument("request ", request, " is a fragment's, which is under way");
}

Status FragmentGrants::HandleCompile(const control::PeerName& client,
                                     const control::Identity* sender,
                                     wire::CompileFragment::Reader compile,
                                     const control::Message& message) {
  LOCKSTEP_ASSIGN_OR_RETURN(SessionEntry * session,
                            sessions_.FindOpen(SessionId(compile.getSession()), client));
  const RequestId request(compile.getRequest());
  if (message.size() != 2) {
    return InvalidArgument("a fragment comes in two frames, this message has ", message.size());
  }
  if (request == SessionEntry::kEndRequest || request == RequestId()) {
    return InvalidArgument("request ", request, " is none of a client's");
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckFree(session->id, request));
  const control::Frame& source = message[1];
  const TimePoint now = tools_.clock.Now();
  session->last_heard = now;
  // The name of a function is no code: whoever has a session may call those that the workers have.
  Status status =
      compile.getKind() == wire::FragmentKind::FUNCTION ? OkStatus() : CheckRole(sender);
  if (status.ok()) status = CheckSize(compile, source.size());
  if (status.ok()) status = CheckRoom(session->id, source.size());
  if (!status.ok()) {
    messenger_.Answer(client, session->id, request, control::ErrorOf(status));
    return OkStatus();
  }
  failures_.NoticeLostBatches(*session, compile.getNextCommand());
  if (!session->failure.ok()) {
    messenger_.Answer(client, session->id, request, session->failure);
    return OkStatus();
  }
  Loading loading{tools_.membership.epoch(), source.size(), {}};
  loading.waiting.assign(static_cast<size_t>(tools_.membership.size()), true);
  loading_[{session->id, request}] = std::move(loading);
  gatherer_.Expect(client, session->id, request, tools_.membership.size(), -1,
                   tools_.timers.After(compile.getTimeoutMillis()), now,
                   "compile " + std::string(compile.getName()));
  const control::Frame body = control::OneCommand([&](wire::Command::Builder command) {
    auto load = command.initLoadFragment();
    load.setKind(compile.getKind());
    load.setName(compile.getName());
    load.setEntry(compile.getEntry());
    load.setSource({reinterpret_cast<const kj::byte*>(source.data()), source.size()});
  });
  broadcaster_.Send({session->id, session->generation, 0, request}, body);
  return OkStatus();
}

void FragmentGrants::NoteReply(SessionId session, RequestId request, Rank rank) {
  const auto found = loading_.find({session, request});
  if (found == loading_.end()) return;
  std::vector<bool>& waiting = found->second.waiting;
  waiting[static_cast<size_t>(rank)] = false;
  if (std::find(waiting.begin(), waiting.end(), true) == waiting.end()) loading_.erase(found);
}

}  // namespace lockstep::controller
