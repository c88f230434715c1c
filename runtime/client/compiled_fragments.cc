#include "runtime/client/compiled_fragments.h"

#include <utility>

namespace lockstep::client {

StatusOr<CompiledFragment> CompiledFragments::CompileOnce(const std::shared_ptr<SessionCore>& core,
                                                          const fragment::Fragment& fragment) {
  {
    std::lock_guard lock(mutex_);
    const auto known = compiled_.find(fragment.key());
    if (known != compiled_.end() && known->second.CheckGeneration(*core).ok()) {
      return known->second;
    }
  }
  LOCKSTEP_ASSIGN_OR_RETURN(CompiledFragment compiled, CompiledFragment::Compile(core, fragment));
  std::lock_guard lock(mutex_);
  std::erase_if(compiled_,
                [&](const auto& old) { return !old.second.CheckGeneration(*core).ok(); });
  return compiled_[fragment.key()] = std::move(compiled);
}

}  // namespace lockstep::client
