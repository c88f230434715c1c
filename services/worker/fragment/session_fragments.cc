#include "services/worker/fragment/session_fragments.h"

#include <utility>

namespace lockstep::worker {

Status SessionFragments::Grant(const fragment::ObjectKey& key, const std::string& name) {
  const auto found = entries_.find(key);
  if (found != entries_.end()) {
    ++found->second.unfinished;
    return OkStatus();
  }
  if (entries_.size() >= kMost) {
    return ResourceExhausted(name, " is not compiled: the session has ", kMost,
                             " fragments already; a reset forgets them");
  }
  entries_[key] = {name, nullptr, nullptr, 1};
  return OkStatus();
}

Status SessionFragments::GrantFunction(const fragment::ObjectKey& key, const std::string& name,
                                       std::shared_ptr<module::Function> function) {
  LOCKSTEP_RETURN_IF_ERROR(Grant(key, name));
  Entry& entry = entries_[key];
  entry.function = std::move(function);
  // It need not be waited for.
  entry.unfinished = 0;
  return OkStatus();
}

void SessionFragments::Finish(const fragment::ObjectKey& key,
                              std::shared_ptr<const LoadedObject> object) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  --found->second.unfinished;
  // What has been there stays.
  if (found->second.object != nullptr) return;
  if (object == nullptr) {
    // Another may be under way.
    if (found->second.unfinished == 0) entries_.erase(found);
    return;
  }
  object_bytes_ += object->size_bytes();
  found->second.object = std::move(object);
}

StatusOr<const SessionFragments::Entry*> SessionFragments::Find(
    const fragment::ObjectKey& key) const {
  const auto found = entries_.find(key);
  if (found == entries_.end()) {
    return FailedPrecondition("fragment ", key.ToString(),
                              " was not compiled in this session since its last reset: Compile() "
                              "it first");
  }
  if (found->second.object == nullptr && found->second.function == nullptr) {
    return FailedPrecondition(found->second.name,
                              " is still being compiled: wait for the answer to Compile()");
  }
  return &found->second;
}

StatusOr<SessionFragments::Call*> SessionFragments::AddCall(uint32_t number, Call call,
                                                            size_t bytes) {
  if (number != calls_.NumberOfNext(bytes)) {
    return InvalidArgument("the next call of a fragment has the number ",
                           calls_.NumberOfNext(bytes), " in this session, and ", number,
                           " is given");
  }
  auto kept = std::make_unique<Call>(std::move(call));
  Call* const added = kept.get();
  calls_.Add(std::move(kept), bytes);
  return added;
}

StatusOr<SessionFragments::Call*> SessionFragments::FindCall(uint32_t number) const {
  const std::unique_ptr<Call>* const found = calls_.Find(number);
  if (found != nullptr) return found->get();
  return InvalidArgument("no call of a fragment has the number ", number, " in this session: send ",
                         "it whole, first");
}

void SessionFragments::Clear() {
  calls_.Clear();
  entries_.clear();
  object_bytes_ = 0;
}

}  // namespace lockstep::worker
