// The steps of one rank of a program: a flat list, over one table of buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/plan/lowering/teams.h"
#include "runtime/plan/passes/program_lowering.h"
#include "runtime/plan/steps/step.h"

namespace lockstep::plan {

// Calls the function of Program::ops()[op], which is a CallOp.
struct CallStep {
  size_t op = 0;
  int result_buffer = -1;  // of kReturned; -1: it has no result
  // Of each argument; -1: a literal.
  std::vector<int> argument_buffers;
  int part_of = 1;  // CallOp::part_of
  bool operator==(const CallStep&) const = default;
};

enum class Lane : uint8_t { kCompute, kCommunication };

struct ProgramStep {
  std::variant<CallStep, CopyStep, FillStep, CollectiveStep> what;
  size_t op = 0;  // of Program::ops(): whose line it comes from
  Lane lane = Lane::kCompute;
  // The step of the other lane that has to be done before this one begins, with all before it
  // there; -1: none that this lane has not waited for.
  int waits_for = -1;
  // Of a collective: further operations that are done in it.
  std::vector<size_t> together = {};
  bool operator==(const ProgramStep&) const = default;
};

// "train.cc:12", or "train.cc:12, train.cc:13" of what is done together; "": no one wrote it.
std::string LinesOf(const Program& program, const ProgramStep& step);

struct StepBuffer {
  enum class Home : uint8_t {
    kNowhere,   // this rank has nothing of the value, or nothing uses it
    kInput,     // in a register that the plan is bound to
    kReturned,  // in what a function has returned
    kArena,     // in the plan's own memory
    kOutput,    // an output's, in memory of its own (ExpandOptions)
    kInside,    // in another buffer, of which it is a part
  };
  Home home = Home::kNowhere;
  DType dtype = DType::kUInt8;
  Shape extents;             // dense, row-major
  int64_t arena_offset = 0;  // bytes; of kArena
  int inside = -1;           // of kInside: which buffer, that is not inside another,
  int64_t offset = 0;        // and where it begins there, in elements
  // The steps while it is in use, both included, by the order of the list (where lanes overlap: a
  // step of the compute lane behind the last one has waited for all that use it); an output's last
  // is the number of steps.
  int first_step = 0;
  int last_step = 0;

  int64_t size_bytes() const { return extents.NumElements() * static_cast<int64_t>(SizeOf(dtype)); }
  bool operator==(const StepBuffer&) const = default;
};

struct ProgramSteps {
  // First one for each value, by its number; then those for use in between. A value that lies in
  // another's buffer (LoweredProgram::lies_in) has none of its own.
  std::vector<StepBuffer> buffers;
  std::vector<ProgramStep> steps;
  bool lanes_overlap = false;  // as was asked for: ExpandOptions
  bool same_offsets = false;   // if it was asked for, and all ranks together have few enough steps
  // For each collective of all ranks, by its number: its teams.
  std::vector<std::shared_ptr<const Teams>> teams;
  int64_t arena_bytes = 0;
  // The same if each buffer had memory of its own, and what no plan can do with less.
  int64_t arena_bytes_apart = 0;
  int64_t arena_bytes_bound = 0;

  // The buffer that it is a part of, or itself.
  int RootOf(int buffer) const {
    const StepBuffer& one = buffers[static_cast<size_t>(buffer)];
    return one.home == StepBuffer::Home::kInside ? one.inside : buffer;
  }
  // Of its root.
  StepBuffer::Home HomeOf(int buffer) const {
    return buffers[static_cast<size_t>(RootOf(buffer))].home;
  }
};

// About two seconds' work: steps, and in units of 128 the members of the teams that meet in them.
constexpr size_t kMaxStepsOfSameOffsets = size_t{1} << 21;

struct ExpandOptions {
  // Outputs that the program makes do not lie in the arena, but have memory of their own.
  bool outputs_apart = false;
  // The two lanes go on at the same time: memory that steps of one use is not used again by those
  // of the other before they have waited for them. Else the steps are done one after the other.
  bool lanes_overlap = false;
  // A value, and what ranks pass to one collective, is at the same offset on all ranks that have it
  // in their arenas, and these are as large on each rank of the program: for backends that take
  // registered memory only so (NCCL). All ranks must have these options. Takes as much longer as
  // there are ranks, whose steps have to be known for it; if these are more than
  // kMaxStepsOfSameOffsets together, each rank has offsets of its own.
  bool same_offsets = false;
};

// `rank` may have no part in the program: then it has no steps. Deterministic.
ProgramSteps ExpandProgram(const LoweredProgram& lowered, Rank rank,
                           const ExpandOptions& options = {});
// The same. kAborted: it is asked now and then whether to go on, and `is_given_up`, if it is not
// null, was true.
StatusOr<ProgramSteps> ExpandProgram(const LoweredProgram& lowered, Rank rank,
                                     const ExpandOptions& options,
                                     const std::function<bool()>& is_given_up);

}  // namespace lockstep::plan
