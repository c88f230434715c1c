// The command that calls a fragment: from registers to what the compiled fragment is given, and
// back.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/control/activity_page.h"
#include "runtime/fragment/object_key.h"
#include "runtime/fragment/signature.h"
#include "runtime/plan/recently_used.h"
#include "runtime/tensor/processor.h"
#include "schemas/control.capnp.h"
#include "services/worker/execute/prepared_fragment_call.h"
#include "services/worker/execute/running_command.h"
#include "services/worker/execute/session_state.h"
#include "services/worker/fragment/session_fragments.h"
#include "services/worker/report/recorder.h"

namespace lockstep::worker {

// Fragments compute in host memory: what lies on the worker's GPU is copied, and so are results.
//
// Threads: the executing thread.
class FragmentCommands {
 public:
  // Calls that were prepared before: one that is made in a loop is prepared once.
  static constexpr size_t kMaxPrepared = 256;
  static constexpr size_t kMaxPreparedBytes = size_t{8} << 20;

  // All is borrowed. Without a recorder nothing is recorded for timelines.
  FragmentCommands(control::ActivityPage& activity, Recorder* recorder, RunningCommand& running)
      : activity_(activity), recorder_(recorder), running_(running) {}

  // What was prepared for another place is forgotten.
  void SetPlace(Rank rank, int world_size);

  // kFailedPrecondition: the fragment was not granted, or is being compiled; kInvalidArgument: it
  // is no call of it, or a register holds something else than the call says; the errors of
  // LoadedObject::Run().
  Status Run(SessionState& session, wire::Command::RunFragment::Reader run,
             const tensor::Processors& places);

 private:
  using Prepared = std::shared_ptr<const PreparedFragmentCall>;
  struct Entry {
    fragment::ObjectKey fragment;
    std::string call;  // as it came
    Prepared prepared;
  };

  StatusOr<Prepared> Prepare(const fragment::ObjectKey& key, const fragment::Signature& signature,
                             absl::Span<const std::byte> call);
  StatusOr<Prepared> PrepareAnew(const fragment::Signature& signature,
                                 absl::Span<const std::byte> call) const;

  control::ActivityPage& activity_;
  Recorder* const recorder_;
  RunningCommand& running_;
  Rank rank_ = 0;
  int world_size_ = 1;
  plan::RecentlyUsed<Entry> prepared_{{kMaxPrepared, kMaxPreparedBytes}};
};

}  // namespace lockstep::worker
