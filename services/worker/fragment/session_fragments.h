// The fragments that were granted to one session, what they were compiled to, and calls of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "runtime/base/status.h"
#include "runtime/fragment/known_calls.h"
#include "runtime/fragment/object_key.h"
#include "runtime/module/function.h"
#include "services/worker/fragment/loaded_object.h"
#include "services/worker/fragment/prepared_call.h"

namespace lockstep::worker {

// A key names a fragment here and nowhere else: one that the controller has not had loaded for this
// session is not found, whatever other sessions have.
//
// Threads: one at a time.
class SessionFragments {
 public:
  // Of one session.
  static constexpr size_t kMost = 1024;
  // Layouts that are read take a few times as much as on the wire.
  static constexpr size_t kBytesPerCallByte = 8;

  struct Entry {
    std::string name;                            // what messages call it
    std::shared_ptr<const LoadedObject> object;  // null: it is being compiled, or a function
    std::shared_ptr<module::Function> function;  // of a module; null: it is compiled
    int unfinished = 0;                          // grants whose end is yet to come
  };

  // A call that the session's client has made, and makes again by its number.
  struct Call {
    std::string name;                            // of the fragment, for messages
    std::shared_ptr<module::Function> function;  // null: it is compiled
    PreparedCall prepared;
  };

  // It is granted. One that is here stays as it is. kResourceExhausted: it is one too many.
  Status Grant(const fragment::ObjectKey& key, const std::string& name);
  // The same for the name of a function, which may be executed at once.
  Status GrantFunction(const fragment::ObjectKey& key, const std::string& name,
                       std::shared_ptr<module::Function> function);
  // A grant has come to its end: it can be executed, or (null) not. Of several at once, one that
  // ends well is enough.
  void Finish(const fragment::ObjectKey& key, std::shared_ptr<const LoadedObject> object);

  // One that can be executed; valid until the next call that is not const. kFailedPrecondition:
  // it was not granted, or is being compiled, and what to do.
  StatusOr<const Entry*> Find(const fragment::ObjectKey& key) const;

  // Keeps a call of one of them, of so many bytes, under the number that its client gives it.
  // kInvalidArgument: that is another one than it has here.
  // What is returned is valid until the next is added, or until Clear().
  StatusOr<Call*> AddCall(uint32_t number, Call call, size_t bytes);
  // Likewise. kInvalidArgument: no call has that number.
  StatusOr<Call*> FindCall(uint32_t number) const;

  void Clear();

  // Of the objects, and about that of the calls.
  size_t bytes() const { return object_bytes_ + kBytesPerCallByte * calls_.bytes(); }

 private:
  struct Hash {
    size_t operator()(const fragment::ObjectKey& key) const { return key.low; }
  };

  std::unordered_map<fragment::ObjectKey, Entry, Hash> entries_;
  size_t object_bytes_ = 0;
  fragment::KnownCalls<std::unique_ptr<Call>> calls_;
};

}  // namespace lockstep::worker
