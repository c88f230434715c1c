#include "runtime/plan/program_steps.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/plan/expand.h"
#include "runtime/plan/lanes.h"
#include "runtime/plan/memory.h"
#include "runtime/plan/shared_arena.h"
#include "runtime/plan/together.h"

namespace lockstep::plan {
namespace {

// Of tensors, and of what vector instructions like best.
constexpr int64_t kAlignment = 64;

template <typename Visit>
void ForEachBuffer(const CallStep& call, Visit&& visit) {
  for (const int buffer : call.argument_buffers) {
    if (buffer >= 0) visit(buffer);
  }
  if (call.result_buffer >= 0) visit(call.result_buffer);
}

Status GivenUp() { return Aborted("the program is given up"); }

class ProgramExpander {
 public:
  ProgramExpander(const LoweredProgram& lowered, Rank rank, const ExpandOptions& options,
                  const std::function<bool()>& is_given_up)
      : lowered_(lowered),
        program_(*lowered.program),
        rank_(rank),
        options_(options),
        is_given_up_(is_given_up) {}

  // If there is one for all ranks, buffers lie there as in `shared`.
  StatusOr<ProgramSteps> Run(const SharedArena* shared) {
    LOCKSTEP_RETURN_IF_ERROR(MakeSteps());
    const std::vector<InArena> buffers = FindLives();
    if (shared != nullptr) {
      TakePlaces(buffers, *shared);
      steps_.same_offsets = true;
    } else if (!PlaceInArena(buffers)) {
      return GivenUp();
    }
    return std::move(steps_);
  }

  // What this rank needs in one arena for all.
  Status AddTo(SharedArena* shared) {
    LOCKSTEP_RETURN_IF_ERROR(MakeSteps());
    const std::vector<InArena> buffers = FindLives();
    const std::vector<BufferName> names = Names();
    for (const InArena& one : buffers) {
      LiveBuffer live = LiveBuffer::Unused(one.live.size);
      for (size_t lane = 0; lane < LiveBuffer::kLanes; ++lane) {
        const LiveBuffer::Use& use = one.live.uses[lane];
        if (use.first == LiveBuffer::kNever) continue;
        live.uses[lane] = {PositionOf(use.first), PositionOf(use.last), PositionOf(use.until)};
      }
      shared->Add(names[static_cast<size_t>(one.buffer)], live);
    }
    return OkStatus();
  }
  size_t num_steps() const { return steps_.steps.size(); }

 private:
  using Home = StepBuffer::Home;
  // A buffer in the arena, and when it is in use.
  struct InArena {
    int buffer = 0;
    LiveBuffer live;
  };

  Status MakeSteps() {
    MakeValueBuffers();
    PutChunksInside();
    for (size_t i = 0; i < lowered_.ops.size(); ++i) {
      if (is_given_up_()) return GivenUp();
      const LoweredOp& op = lowered_.ops[i];
      op_ = op.op;
      const auto position = static_cast<int>(i);
      const auto& what = program_.ops()[op.op].what;
      if (op.reshard != nullptr) {
        size_t last = i;
        while (last + 1 < lowered_.ops.size() && lowered_.ops[last + 1].with_previous) ++last;
        AddReshards(absl::MakeConstSpan(lowered_.ops).subspan(i, last + 1 - i));
        i = last;
      } else if (const auto* chunk = std::get_if<ChunkOp>(&what)) {
        AddChunk(*chunk);
      } else {
        AddCall(std::get<CallOp>(what));
      }
      positions_.resize(steps_.steps.size(), position);
    }
    AssignLanes(program_, &steps_);
    steps_.lanes_overlap = options_.lanes_overlap;
    return OkStatus();
  }

  int BufferOf(ValueId id) const {
    return static_cast<int>(lowered_.lies_in[static_cast<size_t>(id)]);
  }
  StepBuffer& At(int buffer) { return steps_.buffers[static_cast<size_t>(buffer)]; }

  void MakeValueBuffers() {
    for (const ProgramValue& value : program_.values()) {
      StepBuffer buffer{Home::kNowhere, value.layout.dtype(), {}, 0};
      const std::optional<int> index = value.layout.mesh().IndexOf(rank_);
      if (index.has_value()) {
        buffer.extents = value.layout.TileAt(*index).extents;
      } else {
        buffer.extents = Shape({0});
      }
      is_held_.push_back(index.has_value());
      steps_.buffers.push_back(buffer);
    }
    for (const ValueId id : program_.inputs()) {
      if (is_held_[static_cast<size_t>(id)]) At(static_cast<int>(id)).home = Home::kInput;
    }
    if (!options_.outputs_apart) return;
    for (const ValueId id : program_.outputs()) {
      StepBuffer& buffer = At(BufferOf(id));
      const bool is_made = is_held_[static_cast<size_t>(id)] && buffer.home == Home::kNowhere;
      if (is_made) buffer.home = Home::kOutput;
    }
  }

  // What is written here for the first time lies in the arena, unless it has a place.
  void UseInArena(int part) {
    const int buffer = steps_.RootOf(part);
    const bool is_held =
        static_cast<size_t>(buffer) >= is_held_.size() || is_held_[static_cast<size_t>(buffer)];
    if (is_held && At(buffer).home == Home::kNowhere) At(buffer).home = Home::kArena;
  }

  // Where the elements of a chunk are in the tile that it is of.
  std::vector<CopyStep> CopiesOf(const ChunkOp& op) const {
    const auto whole = static_cast<size_t>(BufferOf(op.whole()));
    const auto chunk = static_cast<size_t>(BufferOf(op.chunk()));
    const Layout& layout = program_.value(op.whole()).layout;
    const std::optional<int> index = layout.mesh().IndexOf(rank_);
    if (!index.has_value()) return {};
    const Box tile = layout.TileAt(*index);
    int64_t outer = 1;
    int64_t inner = 1;
    for (int d = 0; d < tile.ndim(); ++d) (d < op.dim ? outer : inner) *= tile.extents[d];
    const int64_t rows = tile.extents[op.dim];
    if (tile.IsEmpty()) return {};
    inner /= rows;
    const int64_t chunk_rows = steps_.buffers[chunk].extents[op.dim];
    std::vector<CopyStep> copies;
    for (const Cut::Runs& runs : op.cut->RunsOf({tile.begin[op.dim], rows}, op.number)) {
      CopyStep copy;
      copy.extents = Shape({outer, runs.times, runs.extent, inner});
      copy.from_buffer = static_cast<int>(whole);
      copy.from = {runs.in_tile * inner, Shape({rows * inner, runs.pitch * inner, inner, 1})};
      copy.to_buffer = static_cast<int>(chunk);
      copy.to = {runs.in_chunk * inner, Shape({chunk_rows * inner, runs.extent * inner, inner, 1})};
      copy.count = copy.extents.NumElements();
      if (op.puts) {
        std::swap(copy.from_buffer, copy.to_buffer);
        std::swap(copy.from, copy.to);
      }
      copies.push_back(std::move(copy));
    }
    return copies;
  }

  // Chunks that lie in a row in their tile are there from the beginning, if no one can tell.
  void PutChunksInside() {
    std::vector<bool> is_returned(program_.values().size(), false);
    for (const ProgramOp& op : program_.ops()) {
      const auto* const call = std::get_if<CallOp>(&op.what);
      if (call != nullptr && call->result != kNoValue) {
        is_returned[static_cast<size_t>(call->result)] = true;
      }
    }
    for (const LoweredOp& op : lowered_.ops) {
      const auto* const chunk = std::get_if<ChunkOp>(&program_.ops()[op.op].what);
      if (chunk == nullptr || !op.in_place) continue;
      if (is_returned[static_cast<size_t>(chunk->chunk())]) continue;
      const std::vector<CopyStep> copies = CopiesOf(*chunk);
      if (copies.size() != 1) continue;
      const CopyStep& copy = copies.front();
      const Window& window = chunk->puts ? copy.to : copy.from;
      if (!IsDense(window, copy.extents)) continue;
      StepBuffer& buffer = At(BufferOf(chunk->chunk()));
      buffer.home = Home::kInside;
      buffer.inside = BufferOf(chunk->whole());
      buffer.offset = window.offset;
    }
  }

  void AddChunk(const ChunkOp& op) {
    UseInArena(BufferOf(op.result));
    if (At(BufferOf(op.chunk())).home == Home::kInside) return;
    for (CopyStep& copy : CopiesOf(op)) steps_.steps.push_back({std::move(copy), op_});
  }

  void AddCall(const CallOp& call) {
    const std::vector<Rank> ranks = program_.RanksOf(call);
    if (!std::binary_search(ranks.begin(), ranks.end(), rank_)) return;
    CallStep step;
    step.op = op_;
    step.part_of = call.part_of;
    for (const CallArgument& argument : call.arguments) {
      const bool is_literal = argument.use == CallArgument::Use::kLiteral;
      step.argument_buffers.push_back(is_literal ? -1 : BufferOf(argument.value));
      if (!is_literal) UseInArena(step.argument_buffers.back());
    }
    if (call.result != kNoValue) {
      step.result_buffer = BufferOf(call.result);
      At(step.result_buffer).home = Home::kReturned;
    }
    steps_.steps.push_back({std::move(step), op_});
  }

  // The steps of one of the reshards that are done together, in this table's buffers.
  struct Expanded {
    size_t op = 0;
    DType dtype = DType::kUInt8;
    std::vector<std::variant<CallStep, CopyStep, FillStep, CollectiveStep>> steps;
    size_t next = 0;
  };
  Expanded ExpandOne(const LoweredOp& op, int first_number) {
    const RankSteps expanded = Expand(*op.reshard, rank_);
    // Its buffers in this table.
    std::vector<int> buffers = {BufferOf(op.source), BufferOf(op.result)};
    Expanded one{op.op, op.reshard->from.dtype(), {}, 0};
    for (size_t i = buffers.size(); i < expanded.buffer_elements.size(); ++i) {
      buffers.push_back(NewBuffer(one.dtype, expanded.buffer_elements[i]));
    }
    UseInArena(buffers[1]);
    for (const Step& step : expanded.steps) {
      one.steps.push_back(Renumbered(step, buffers, first_number));
    }
    return one;
  }
  int NewBuffer(DType dtype, int64_t elements) {
    steps_.buffers.push_back({Home::kArena, dtype, Shape({elements}), 0});
    return static_cast<int>(steps_.buffers.size()) - 1;
  }

  // Mostly one. Each up to its next collective; these as one.
  void AddReshards(absl::Span<const LoweredOp> ops) {
    const auto& teams = ops.front().reshard->teams;
    const auto first_number = static_cast<int>(steps_.teams.size());
    const auto end = first_number + static_cast<int>(teams.size());
    steps_.teams.insert(steps_.teams.end(), teams.begin(), teams.end());
    std::vector<Expanded> all;
    for (const LoweredOp& op : ops) all.push_back(ExpandOne(op, first_number));
    for (int number = first_number; number <= end; ++number) {
      std::vector<size_t> those;  // that have it on this rank
      std::vector<CollectiveStep> collectives;
      for (Expanded& one : all) {
        for (; one.next < one.steps.size(); ++one.next) {
          const auto* const it = std::get_if<CollectiveStep>(&one.steps[one.next]);
          if (it == nullptr) {
            steps_.steps.push_back({std::move(one.steps[one.next]), one.op});
            continue;
          }
          if (it->number != number) break;
          those.push_back(one.op);
          collectives.push_back(*it);
          ++one.next;
          break;
        }
      }
      AddCollectives(those, collectives, all.front().dtype);
    }
  }

  void AddCollectives(const std::vector<size_t>& ops, std::vector<CollectiveStep>& collectives,
                      DType dtype) {
    if (collectives.empty()) return;
    if (collectives.size() == 1) {
      steps_.steps.push_back({std::move(collectives.front()), ops.front()});
      return;
    }
    Together together =
        DoTogether(collectives, [&](int64_t elements) { return NewBuffer(dtype, elements); });
    const auto add_copies = [&](std::vector<std::vector<CopyStep>>& copies) {
      for (size_t i = 0; i < copies.size(); ++i) {
        for (CopyStep& copy : copies[i]) steps_.steps.push_back({std::move(copy), ops[i]});
      }
    };
    add_copies(together.before);
    ProgramStep step{std::move(together.step), ops.front()};
    step.together.assign(ops.begin() + 1, ops.end());
    steps_.steps.push_back(std::move(step));
    add_copies(together.after);
  }

  static std::variant<CallStep, CopyStep, FillStep, CollectiveStep> Renumbered(
      const Step& step, const std::vector<int>& buffers, int first_number) {
    const auto in_table = [&](int buffer) { return buffers[static_cast<size_t>(buffer)]; };
    if (const auto* copy = std::get_if<CopyStep>(&step)) {
      CopyStep moved = *copy;
      moved.from_buffer = in_table(copy->from_buffer);
      moved.to_buffer = in_table(copy->to_buffer);
      return moved;
    }
    if (const auto* fill = std::get_if<FillStep>(&step)) {
      FillStep moved = *fill;
      moved.to.buffer = in_table(fill->to.buffer);
      return moved;
    }
    CollectiveStep moved = std::get<CollectiveStep>(step);
    moved.number += first_number;
    moved.send.buffer = in_table(moved.send.buffer);
    moved.recv.buffer = in_table(moved.recv.buffer);
    return moved;
  }

  // What lies in the arena. An output lives to the end; what is not used is nowhere.
  std::vector<InArena> FindLives() {
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
    for (const ValueId id : program_.outputs()) {
      live[static_cast<size_t>(BufferOf(id))].UseAt(end, 0, end);
    }
    std::vector<InArena> in_arena;
    for (size_t i = 0; i < steps_.buffers.size(); ++i) {
      StepBuffer& buffer = steps_.buffers[i];
      if (buffer.home == Home::kArena && !live[i].IsUsed()) buffer.home = Home::kNowhere;
      const LiveBuffer& in_use = live[static_cast<size_t>(steps_.RootOf(static_cast<int>(i)))];
      buffer.first_step = std::max(in_use.first(), 0);
      buffer.last_step = std::max({in_use.uses[0].last, in_use.uses[1].until, 0});
      if (buffer.home != Home::kArena) continue;
      live[i].size = buffer.size_bytes();
      in_arena.push_back({static_cast<int>(i), live[i]});
      steps_.arena_bytes_apart += (live[i].size + kAlignment - 1) / kAlignment * kAlignment;
    }
    steps_.arena_bytes_bound = LivenessBound(LivesOf(in_arena), kAlignment);
    return in_arena;
  }
  static std::vector<LiveBuffer> LivesOf(const std::vector<InArena>& buffers) {
    std::vector<LiveBuffer> lives;
    for (const InArena& one : buffers) lives.push_back(one.live);
    return lives;
  }

  // False: it is given up.
  bool PlaceInArena(const std::vector<InArena>& buffers) {
    const std::optional<MemoryPlan> plan = PlanMemory(LivesOf(buffers), kAlignment, is_given_up_);
    if (!plan.has_value()) return false;
    for (size_t i = 0; i < buffers.size(); ++i) {
      At(buffers[i].buffer).arena_offset = plan->offsets[i];
    }
    steps_.arena_bytes = plan->total;
    return true;
  }

  void TakePlaces(const std::vector<InArena>& buffers, const SharedArena& shared) {
    const std::vector<BufferName> names = Names();
    for (const InArena& one : buffers) {
      At(one.buffer).arena_offset = shared.OffsetOf(names[static_cast<size_t>(one.buffer)]);
    }
    steps_.arena_bytes = shared.total();
  }
  std::vector<BufferName> Names() const {
    return NamesOf(steps_, program_.values().size(), positions_);
  }
  // Which lowered operation the step is of; behind all, of the end.
  int PositionOf(int step) const {
    const auto index = static_cast<size_t>(step);
    return index < positions_.size() ? positions_[index] : static_cast<int>(lowered_.ops.size());
  }

  const LoweredProgram& lowered_;
  const Program& program_;
  const Rank rank_;
  const ExpandOptions options_;
  const std::function<bool()>& is_given_up_;
  ProgramSteps steps_;
  std::vector<int> positions_;  // by step: which lowered operation it is of
  std::vector<bool> is_held_;   // by value: this rank is of its mesh
  size_t op_ = 0;               // that is expanded
};

// Nothing: `rank` has no part in it, or all ranks together have too many steps.
StatusOr<std::optional<SharedArena>> ShareArena(const LoweredProgram& lowered, Rank rank,
                                                const ExpandOptions& options,
                                                const std::function<bool()>& is_given_up) {
  const std::vector<Rank> ranks = lowered.program->Ranks();
  if (!std::binary_search(ranks.begin(), ranks.end(), rank)) return std::nullopt;
  SharedArena shared;
  size_t num_steps = 0;
  for (const Rank one : ranks) {
    ProgramExpander expander(lowered, one, options, is_given_up);
    LOCKSTEP_RETURN_IF_ERROR(expander.AddTo(&shared));
    num_steps += expander.num_steps();
    if (num_steps > kMaxStepsOfSameOffsets) return std::nullopt;
  }
  if (!shared.Place(kAlignment, is_given_up)) return GivenUp();
  return shared;
}

}  // namespace

std::string LinesOf(const Program& program, const ProgramStep& step) {
  std::string lines = program.ops()[step.op].where;
  for (const size_t op : step.together) {
    const std::string& where = program.ops()[op].where;
    if (!where.empty()) lines += (lines.empty() ? "" : ", ") + where;
  }
  return lines;
}

ProgramSteps ExpandProgram(const LoweredProgram& lowered, Rank rank, const ExpandOptions& options) {
  return *ExpandProgram(lowered, rank, options, nullptr);
}

StatusOr<ProgramSteps> ExpandProgram(const LoweredProgram& lowered, Rank rank,
                                     const ExpandOptions& options,
                                     const std::function<bool()>& is_given_up) {
  const std::function<bool()> never = [] { return false; };
  const std::function<bool()>& asked = is_given_up ? is_given_up : never;
  std::optional<SharedArena> shared;
  if (options.same_offsets) {
    LOCKSTEP_ASSIGN_OR_RETURN(shared, ShareArena(lowered, rank, options, asked));
  }
  return ProgramExpander(lowered, rank, options, asked)
      .Run(shared.has_value() ? &*shared : nullptr);
}

}  // namespace lockstep::plan
