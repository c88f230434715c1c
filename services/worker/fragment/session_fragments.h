// The fragments that were granted to one session, and what they were compiled to.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>

#include "runtime/base/status.h"
#include "runtime/fragment/object_key.h"
#include "services/worker/fragment/loaded_object.h"

namespace lockstep::worker {

// A key names a fragment here and nowhere else: one that the controller has not had loaded for this
// session is not found, whatever other sessions have.
//
// Threads: one at a time.
class SessionFragments {
 public:
  // Of one session.
  static constexpr size_t kMost = 1024;

  struct Entry {
    std::string name;                            // what messages call it
    std::shared_ptr<const LoadedObject> object;  // null: it is being compiled
    int unfinished = 0;                          // grants whose end is yet to come
  };

  // It is granted. One that is here stays as it is. kResourceExhausted: it is one too many.
  Status Grant(const fragment::ObjectKey& key, const std::string& name);
  // A grant has come to its end: it can be executed, or (null) not. Of several at once, one that
  // ends well is enough.
  void Finish(const fragment::ObjectKey& key, std::shared_ptr<const LoadedObject> object);

  // One that can be executed; valid until the next call that is not const. kFailedPrecondition:
  // it was not granted, or is being compiled, and what to do.
  StatusOr<const Entry*> Find(const fragment::ObjectKey& key) const;

  void Clear();

  // Of the objects.
  size_t bytes() const { return bytes_; }

 private:
  struct Hash {
    size_t operator()(const fragment::ObjectKey& key) const { return key.low; }
  };

  std::unordered_map<fragment::ObjectKey, Entry, Hash> entries_;
  size_t bytes_ = 0;
};

}  // namespace lockstep::worker
