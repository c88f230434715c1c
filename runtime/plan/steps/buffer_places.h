// Where the buffers of a rank's steps lie in its arena: alone, or at the same offsets on all ranks.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/plan/passes/program_lowering.h"
#include "runtime/plan/steps/make_steps.h"
#include "runtime/plan/steps/memory.h"
#include "runtime/plan/steps/program_steps.h"
#include "runtime/plan/steps/shared_arena.h"

namespace lockstep::plan {

// Of tensors, and of what vector instructions like best; bytes.
constexpr int64_t kBufferAlignment = 64;

// The buffers in the arena of one rank, and when each is in use.
class BuffersInArena {
 public:
  // Says in `made`, which outlives this, when buffers are in use, and how much memory they take
  // apart and at least. What no step uses is nowhere.
  BuffersInArena(const LoweredProgram& lowered, const ExpandOptions& options,
                 StepsWithoutPlaces* made);

  // False: `is_given_up` was true.
  bool Place(const std::function<bool()>& is_given_up);
  // As all ranks have them.
  void PlaceAsIn(const SharedArena& shared);
  // What this rank needs of one arena for all.
  void AddTo(SharedArena* shared) const;

 private:
  struct InArena {
    int buffer = 0;
    LiveBuffer live;
  };

  void FindLives();
  std::vector<LiveBuffer> Lives() const;
  std::vector<BufferName> Names() const;
  int PositionOf(int step) const;

  const LoweredProgram& lowered_;
  const ExpandOptions options_;
  StepsWithoutPlaces& made_;
  ProgramSteps& steps_;  // of made_
  std::vector<InArena> in_arena_;
};

}  // namespace lockstep::plan
