// The command that calls a fragment: from registers to what the compiled fragment is given, and
// back.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/activity_page.h"
#include "runtime/fragment/blas.h"
#include "runtime/fragment/object_key.h"
#include "runtime/plan/recently_used.h"
#include "runtime/registers/register_file.h"
#include "runtime/tensor/processor.h"
#include "schemas/control.capnp.h"
#include "services/worker/execute/running_command.h"
#include "services/worker/execute/session_state.h"
#include "services/worker/fragment/prepared_call.h"
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

  // A call as this rank makes it, with the layouts that registers carry; null: they carry none.
  struct Prepared {
    PreparedCall call;
    std::vector<registers::LayoutPtr> arguments;
    std::vector<registers::LayoutPtr> results;
    size_t result_bytes = 0;
    // How large results become may depend on numbers that the call is given.
    bool depends_on_scalars = false;
  };

  // All is borrowed. Without a recorder nothing is recorded for timelines.
  FragmentCommands(control::ActivityPage& activity, Recorder* recorder, RunningCommand& running)
      : activity_(activity), recorder_(recorder), running_(running) {}

  // What was prepared for another place is forgotten.
  void SetPlace(Rank rank, int world_size);

  // kFailedPrecondition: the fragment was not granted, or is being compiled; kInvalidArgument: it
  // is no call of it, or a register holds something else than the call says; the errors of
  // PreparedCall.
  Status Run(SessionState& session, wire::Command::RunFragment::Reader run,
             const tensor::Processors& places);

 private:
  // What a call is looked for by.
  struct CallKey {
    fragment::ObjectKey fragment;
    absl::Span<const char> call;  // as it came
    std::string scalars;          // their bytes
  };
  struct Entry {
    fragment::ObjectKey fragment;
    std::string call;
    std::string scalars;
    std::shared_ptr<const Prepared> prepared;

    bool IsOf(const CallKey& key) const;
  };

  StatusOr<std::shared_ptr<const Prepared>> Prepare(const CallKey& key,
                                                    const SessionFragments::Entry& fragment,
                                                    absl::Span<const void* const> scalars,
                                                    const CallResources& resources);
  StatusOr<Prepared> PrepareAnew(absl::Span<const char> call,
                                 const std::shared_ptr<const LoadedObject>& object,
                                 absl::Span<const void* const> scalars,
                                 const CallResources& resources) const;
  // Of this machine, looked for by the first call; null: there is none.
  fragment::MatmulFunction Blas();

  control::ActivityPage& activity_;
  Recorder* const recorder_;
  RunningCommand& running_;
  Rank rank_ = 0;
  int world_size_ = 1;
  std::optional<fragment::MatmulFunction> blas_;  // none: it was not looked for
  plan::RecentlyUsed<Entry> prepared_{{kMaxPrepared, kMaxPreparedBytes}};
};

}  // namespace lockstep::worker
