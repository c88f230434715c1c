#include "runtime/plan/steps/buffer_places.h"

#include <algorithm>
#include <optional>

#include "runtime/plan/steps/lanes.h"

namespace lockstep::plan {
namespace {

template <typename Visit>
void ForEachBuffer(const CallStep& call, Visit&& visit) {
  for (const int buffer : call.argument_buffers) {
    if (buffer >= 0) visit(buffer);
  }
  if (call.result_buffer >= 0) visit(call.result_buffer);
}

}  // namespace

BuffersInArena::BuffersInArena(const LoweredProgram& lowered, const ExpandOptions& options,
                               StepsWithoutPlaces* made)
    : lowered_(lowered), options_(options), made_(*made), steps_(made->steps) {
  FindLives();
}

// An output lives to the end.
void BuffersInArena::FindLives() {
  using Home = StepBuffer::Home;
  std::vector<LiveBuffer> live(steps_.buffers.size(), LiveBuffer::Unused(0));
  std::vector<int> until;
  if (options_.lanes_overlap) until = InUseUntil(steps_.steps);
  for (size_t i = 0; i < steps_.steps.size(); ++i) {
    const auto number = static_cast<int>(i);
    const auto use = [&](int buffer) {
      LiveBuffer& used = live[static_cast<size_t>(steps_.RootOf(buffer))];
      if (options_.lanes_overlap) {
        used.UseAt(number, static_cast<size_t>(steps_.steps[i].lane), until[i]);
      } else {
        used.UseAt(number);
      }
    };
    std::visit([&](const auto& step) { ForEachBuffer(step, use); }, steps_.steps[i].what);
  }
  const auto end = static_cast<int>(steps_.steps.size());
  for (const ValueId id : lowered_.program->outputs()) {
    live[static_cast<size_t>(lowered_.HomeOf(id))].UseAt(end, 0, end);
  }
  for (size_t i = 0; i < steps_.buffers.size(); ++i) {
    StepBuffer& buffer = steps_.buffers[i];
    if (buffer.home == Home::kArena && !live[i].IsUsed()) buffer.home = Home::kNowhere;
    const LiveBuffer& in_use = live[static_cast<size_t>(steps_.RootOf(static_cast<int>(i)))];
    buffer.first_step = std::max(in_use.first(), 0);
    buffer.last_step = std::max({in_use.uses[0].last, in_use.uses[1].until, 0});
    if (buffer.home != Home::kArena) continue;
    live[i].size = buffer.size_bytes();
    in_arena_.push_back({static_cast<int>(i), live[i]});
    steps_.arena_bytes_apart +=
        (live[i].size + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  }
  steps_.arena_bytes_bound = LivenessBound(Lives(), kBufferAlignment);
}

std::vector<LiveBuffer> BuffersInArena::Lives() const {
  std::vector<LiveBuffer> lives;
  for (const InArena& one : in_arena_) lives.push_back(one.live);
  return lives;
}

bool BuffersInArena::Place(const std::function<bool()>& is_given_up) {
  const std::optional<MemoryPlan> plan = PlanMemory(Lives(), kBufferAlignment, is_given_up);
  if (!plan.has_value()) return false;
  for (size_t i = 0; i < in_arena_.size(); ++i) {
    steps_.buffers[static_cast<size_t>(in_arena_[i].buffer)].arena_offset = plan->offsets[i];
  }
  steps_.arena_bytes = plan->total;
  return true;
}

void BuffersInArena::PlaceAsIn(const SharedArena& shared) {
  const std::vector<BufferName> names = Names();
  for (const InArena& one : in_arena_) {
    const auto buffer = static_cast<size_t>(one.buffer);
    steps_.buffers[buffer].arena_offset = shared.OffsetOf(names[buffer]);
  }
  steps_.arena_bytes = shared.total();
  steps_.same_offsets = true;
}

// When it is in use, by the program's operations: those all ranks have in common.
void BuffersInArena::AddTo(SharedArena* shared) const {
  const std::vector<BufferName> names = Names();
  for (const InArena& one : in_arena_) {
    LiveBuffer live = LiveBuffer::Unused(one.live.size);
    for (size_t lane = 0; lane < LiveBuffer::kLanes; ++lane) {
      const LiveBuffer::Use& use = one.live.uses[lane];
      if (use.first == LiveBuffer::kNever) continue;
      live.uses[lane] = {PositionOf(use.first), PositionOf(use.last), PositionOf(use.until)};
    }
    shared->Add(names[static_cast<size_t>(one.buffer)], live);
  }
}

std::vector<BufferName> BuffersInArena::Names() const {
  return NamesOf(steps_, lowered_.program->values().size(), made_.positions);
}

// Which lowered operation the step is of; behind all, of the end.
int BuffersInArena::PositionOf(int step) const {
  const auto index = static_cast<size_t>(step);
  return index < made_.positions.size() ? made_.positions[index]
                                        : static_cast<int>(lowered_.ops.size());
}

}  // namespace lockstep::plan
