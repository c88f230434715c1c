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
  entries_[key] = {name, nullptr, 1};
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
  bytes_ += object->size_bytes();
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
  if (found->second.object == nullptr) {
    return FailedPrecondition(found->second.name,
                              " is still being compiled: wait for the answer to Compile()");
  }
  return &found->second;
}

void SessionFragments::Clear() {
  entries_.clear();
  bytes_ = 0;
}

}  // namespace lockstep::worker
