// Programs that this worker has prepared: one that is bound again, in whatever session, is neither
// read nor lowered nor expanded again.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/plan/lowering/topology.h"
#include "runtime/plan/plan_key.h"
#include "runtime/plan/recently_used.h"
#include "services/worker/execute/prepared_program.h"

namespace lockstep::worker {

// Bound plans share what they were bound from, which may be forgotten here while they live.
//
// Threads: one at a time.
class ProgramCache {
 public:
  // Of one rank. What is beyond goes in the order in which it was used last.
  static constexpr size_t kMaxEntries = 128;
  static constexpr size_t kMaxBytes = size_t{64} << 20;

  // What was prepared for another world is forgotten.
  void SetWorld(PlanWorld world);

  // Programs are the same if all of their bytes are. After an error (those of PrepareProgram(), of
  // which one is that the work was given up), nothing of it is kept.
  StatusOr<std::shared_ptr<const PreparedProgram>> Prepare(
      const plan::EncodedProgram& program, const std::function<bool()>& is_given_up = nullptr);

  const plan::CacheUse& use() const { return entries_.use(); }

 private:
  struct Entry {
    plan::EncodedProgram program;
    std::shared_ptr<const PreparedProgram> prepared;
  };

  PlanWorld world_;
  plan::RecentlyUsed<Entry> entries_{{kMaxEntries, kMaxBytes}};
};

}  // namespace lockstep::worker
