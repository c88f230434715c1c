#include "runtime/plan/steps/make_steps.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/plan/steps/expand.h"
#include "runtime/plan/steps/lanes.h"
#include "runtime/plan/steps/together.h"

namespace lockstep::plan {
namespace {

class StepMaker {
 public:
  StepMaker(const LoweredProgram& lowered, Rank rank, const ExpandOptions& options)
      : lowered_(lowered), program_(*lowered.program), rank_(rank), options_(options) {}

  StatusOr<StepsWithoutPlaces> Run(const std::function<bool()>& is_given_up) {
    MakeValueBuffers();
    PutChunksInside();
    for (size_t i = 0; i < lowered_.ops.size(); ++i) {
      if (is_given_up()) return Aborted("the program is given up");
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
    return StepsWithoutPlaces{std::move(steps_), std::move(positions_)};
  }

 private:
  using Home = StepBuffer::Home;

  int BufferOf(ValueId id) const { return static_cast<int>(lowered_.HomeOf(id)); }
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

  const LoweredProgram& lowered_;
  const Program& program_;
  const Rank rank_;
  const ExpandOptions options_;
  ProgramSteps steps_;
  std::vector<int> positions_;  // StepsWithoutPlaces::positions
  std::vector<bool> is_held_;   // by value: this rank is of its mesh
  size_t op_ = 0;               // that is expanded
};

}  // namespace

StatusOr<StepsWithoutPlaces> MakeSteps(const LoweredProgram& lowered, Rank rank,
                                       const ExpandOptions& options,
                                       const std::function<bool()>& is_given_up) {
  return StepMaker(lowered, rank, options).Run(is_given_up);
}

}  // namespace lockstep::plan
