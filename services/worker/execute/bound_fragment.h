// A step of a plan that calls a fragment: what is the same each time, and one call.
//
// The fragment reads the plan's tensors and writes to them where it computes: in host memory, or on
// the worker's GPU. Between the two they are copied.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/plan/program.h"
#include "runtime/registers/value.h"
#include "runtime/tensor/processor.h"
#include "services/worker/execute/call_tensors.h"
#include "services/worker/execute/fragment_arguments.h"
#include "services/worker/execute/session_state.h"
#include "services/worker/fragment/loaded_object.h"
#include "services/worker/fragment/prepared_call.h"
#include "services/worker/fragment/session_fragments.h"

namespace lockstep::worker {

// Holds the compiled object: the plan goes on with it, whatever the session forgets.
//
// Threads: the executing thread.
class BoundFragment {
 public:
  // For the call of `program` on this rank, which is one of those that make it. kInvalidArgument:
  // it is no call of that fragment (fragment::FragmentCallOf()), or `fragment` is a function of a
  // module, which a program calls by its register.
  static StatusOr<std::shared_ptr<BoundFragment>> Bind(const SessionFragments::Entry& fragment,
                                                       const plan::Program& program,
                                                       const plan::CallOp& call, Rank rank);

  const std::string& name() const { return name_; }
  bool computes_on_device() const { return prepared_.computes_on_device(); }

  // `arguments`: those of the call, where tensors are this rank's tiles. `command` is the number of
  // the command, by which the session gives the call up (kAborted). The errors of PreparedCall, and
  // kInvalidArgument: a result is of another size than its tile.
  Status Run(SessionState& session, const tensor::Processors& places,
             absl::Span<const registers::Value> arguments, CallResources resources,
             uint64_t command);
  // Since this was asked last.
  GpuMemory TakeGpuMemory() { return std::exchange(gpu_memory_, {}); }

 private:
  BoundFragment(std::string name, PreparedCall prepared, std::vector<Scalar> numbers)
      : name_(std::move(name)), prepared_(std::move(prepared)), numbers_(std::move(numbers)) {}

  std::string name_;
  PreparedCall prepared_;
  std::vector<Scalar> numbers_;  // by argument; those of tensors mean nothing
  GpuMemory gpu_memory_;
};

}  // namespace lockstep::worker
