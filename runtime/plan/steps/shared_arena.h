// One arena for all ranks of a program: a buffer lies at the same offset on each of them.
//
// Memory that is registered with a network has to be passed so by all ranks of a collective (NCCL),
// or it is copied on the way.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "runtime/plan/steps/memory.h"
#include "runtime/plan/steps/program_steps.h"

namespace lockstep::plan {

// What a buffer of one rank is, in terms that all ranks share; no two of one rank are the same.
// Ranks number their buffers each by itself, and only those of values alike.
struct BufferName {
  enum class Kind : int {
    kValue,   // of a value, by its number
    kPassed,  // what one passes to a collective, by the number of that: 0 is sent, 1 received
    kOther,   // for use in between, by the operation, and by its number among those of it
  };
  Kind kind = Kind::kValue;
  int number = 0;
  int part = 0;
  auto operator<=>(const BufferName&) const = default;
};

// Of each buffer of `steps`, of which the first `num_values` are values'. `positions`: for each
// step, which of the lowered operations it belongs to, ascending.
std::vector<BufferName> NamesOf(const ProgramSteps& steps, size_t num_values,
                                const std::vector<int>& positions);

class SharedArena {
 public:
  // A rank has it in its arena. `live` counts lowered operations, which all ranks share, as steps.
  void Add(const BufferName& name, const LiveBuffer& live);
  // When all ranks have added theirs. False: it was given up (PlanMemory).
  bool Place(int64_t alignment, const std::function<bool()>& is_given_up);

  int64_t OffsetOf(const BufferName& name) const { return plan_.offsets[numbers_.at(name)]; }
  int64_t total() const { return plan_.total; }

 private:
  std::map<BufferName, size_t> numbers_;
  // By number: as large as on any rank, and in use whenever it is on any.
  std::vector<LiveBuffer> buffers_;
  MemoryPlan plan_;
};

}  // namespace lockstep::plan
