// A program that is bound to registers of a session: planned once, executed often.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/operations.h"
#include "runtime/base/status.h"
#include "runtime/client/dref.h"
#include "runtime/client/fragment_execution.h"
#include "runtime/fragment/fragment.h"
#include "runtime/plan/program.h"

namespace lockstep {

// Which registers a program works with.
struct PlanRegisters {
  // By the names of its inputs: each rank of the input's mesh holds its tile there. The plan keeps
  // these registers; when another tensor is put into one later, the plan reads that.
  std::map<std::string, DRef> inputs = {};
  // By the names of its functions; those that are in neither of the two are built-in ones.
  std::map<std::string, DRef> functions = {};
  // Those that are fragments (fragment::CallFragment()), compiled in this session and not since
  // reset. The plan keeps what they were compiled to.
  std::map<std::string, CompiledFragment> fragments = {};
};

struct ExecuteOptions {
  // Also where workers could launch the plan as one graph on their GPUs: timelines show each step.
  bool step_by_step = false;
};

// Made by Session::Bind(). A handle: copies name the same plan, which is freed with the last.
// It belongs to the session, and to the time between two resets.
//
// Threads: any.
class BoundPlan {
 public:
  BoundPlan() = default;

  // Executes the program once, after all that was issued before; does not wait. The registers of
  // its outputs hold new values then, in the memory of the old ones: copy what is to stay.
  // kFailedPrecondition: the session was reset since the plan was bound; bind it again.
  Status Execute(const ExecuteOptions& options = {});

  // A register with that output, on each rank of its layout's mesh: always the same one. Its layout
  // is known (Session::Collect, Reshard). Before the first execution it holds zeros, or nothing if
  // a function returns it. kNotFound tells which outputs there are.
  StatusOr<DRef> Output(std::string_view name) const;

 private:
  friend class Session;
  static StatusOr<BoundPlan> Bind(const std::shared_ptr<client::SessionCore>& core,
                                  const plan::Program& program, const PlanRegisters& registers);
  // kFailedPrecondition: one is of another session, or of the time before a reset;
  // kInvalidArgument: a call does not fit it, with the line.
  static Status CheckFragments(const std::shared_ptr<client::SessionCore>& core,
                               const plan::Program& program, const PlanRegisters& registers);
  // By the numbers of the program's functions that are fragments.
  static std::map<uint32_t, fragment::ObjectKey> KeysOf(const plan::Program& program,
                                                        const PlanRegisters& registers);
  // That an execution writes to its outputs, and may write to its inputs.
  void NoteWrites(client::SessionCore& core) const;

  // Not kept by its plans: a session ends with its Session object.
  std::weak_ptr<client::SessionCore> core_;
  DRef plan_;
  std::vector<DRef> inputs_;
  Generation generation_;
  std::vector<Rank> ranks_;  // that it takes to end
  std::map<std::string, DRef, std::less<>> outputs_;
};

}  // namespace lockstep
