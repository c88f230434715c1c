// The fragments that a session has compiled because it executed them.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "runtime/base/status.h"
#include "runtime/client/fragment_execution.h"
#include "runtime/client/session_core.h"
#include "runtime/fragment/fragment.h"
#include "runtime/fragment/object_key.h"

namespace lockstep::client {

// Threads: safe; others go on while one compiles.
class CompiledFragments {
 public:
  // Compiles the fragment, unless that was done in this generation of the session. The errors of
  // Session::Compile().
  StatusOr<CompiledFragment> CompileOnce(const std::shared_ptr<SessionCore>& core,
                                         const fragment::Fragment& fragment);

 private:
  struct Hash {
    size_t operator()(const fragment::ObjectKey& key) const { return key.low; }
  };

  std::mutex mutex_;
  std::unordered_map<fragment::ObjectKey, CompiledFragment, Hash> compiled_;
};

}  // namespace lockstep::client
