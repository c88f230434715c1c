#include "runtime/plan/steps/check_steps.h"

#include <algorithm>
#include <array>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/operations.h"

namespace lockstep::plan {
namespace {

using Home = StepBuffer::Home;

// Wide enough for what 64-bit numbers of any size make together.
using Wide = __int128;

// The elements of a box lie in the order of its rows: each further on than the one before.
bool IsAscending(const Window& window, const Shape& extents) {
  Wide inner = 0;  // from the first to the last element of what the dimensions inside make
  for (int d = extents.ndim() - 1; d >= 0; --d) {
    if (extents[d] == 1) continue;
    if (window.strides[d] <= inner) return false;
    inner += Wide{window.strides[d]} * (extents[d] - 1);
  }
  return true;
}

// Where the element of that number of a box lies.
Wide OffsetOf(int64_t number, const Window& window, const Shape& extents) {
  Wide offset = window.offset;
  for (int d = extents.ndim() - 1; d >= 0; --d) {
    offset += Wide{number % extents[d]} * window.strides[d];
    number /= extents[d];
  }
  return offset;
}

Wide Sum(const std::vector<int64_t>& counts) {
  Wide sum = 0;
  for (const int64_t count : counts) sum += count;
  return sum;
}

class Checker {
 public:
  Checker(const Program& program, const ProgramSteps& steps, Rank rank)
      : program_(program), steps_(steps), rank_(rank), made_at_(steps.buffers.size(), kNever) {}

  Status Run() {
    LOCKSTEP_RETURN_IF_ERROR(CheckArena());
    for (size_t i = 0; i < steps_.steps.size(); ++i) {
      number_ = static_cast<int>(i);
      step_ = &steps_.steps[i];
      std::string why = WhyNotInOrder();
      if (why.empty())
        why = std::visit([&](const auto& what) { return WhyWrong(what); }, step_->what);
      if (why.empty()) continue;
      return Internal("step ", i, " of the plan on rank ", rank_, " is wrong: ", why);
    }
    return OkStatus();
  }

 private:
  static constexpr int kNever = -1;

  Status CheckArena() const {
    if (steps_.arena_bytes < 0) {
      return Internal("the plan on rank ", rank_, " has a memory of ", steps_.arena_bytes,
                      " bytes");
    }
    for (const StepBuffer& buffer : steps_.buffers) {
      LOCKSTEP_RETURN_IF_ERROR(buffer.extents.Validate(SizeOf(buffer.dtype)));
    }
    std::vector<bool> is_input(steps_.buffers.size());
    for (const ValueId id : program_.inputs()) {
      if (IsThere(static_cast<int>(id))) is_input[static_cast<size_t>(id)] = true;
    }
    for (size_t i = 0; i < steps_.buffers.size(); ++i) {
      const StepBuffer& buffer = steps_.buffers[i];
      if (buffer.home == Home::kInput && !is_input[i]) {
        return Internal("buffer ", i, " of the plan on rank ", rank_, " is no input's");
      }
      if (buffer.home == Home::kInside && !IsPart(buffer)) {
        return Internal("buffer ", i, " of the plan on rank ", rank_,
                        " lies outside the one that it is a part of");
      }
      if (buffer.home != Home::kArena) continue;
      const bool is_inside = buffer.arena_offset >= 0 &&
                             buffer.size_bytes() <= steps_.arena_bytes &&
                             buffer.arena_offset <= steps_.arena_bytes - buffer.size_bytes() &&
                             buffer.arena_offset % static_cast<int64_t>(SizeOf(buffer.dtype)) == 0;
      if (is_inside) continue;
      return Internal("buffer ", i, " of the plan on rank ", rank_, " lies outside its memory of ",
                      steps_.arena_bytes, " bytes");
    }
    return OkStatus();
  }

  // All that say why a step is wrong are empty if it is not.
  std::string WhyNotInOrder() {
    const auto is_none = [&](size_t op) { return op >= program_.ops().size(); };
    if (is_none(step_->op) ||
        std::any_of(step_->together.begin(), step_->together.end(), is_none)) {
      return "it comes from no operation";
    }
    if (step_->waits_for == kNever) return "";
    const bool is_earlier = step_->waits_for > kNever && step_->waits_for < number_;
    if (!is_earlier || steps_.steps[static_cast<size_t>(step_->waits_for)].lane == step_->lane) {
      return "it waits for no earlier step of the other lane";
    }
    int& waited = has_waited_for_[static_cast<size_t>(step_->lane)];
    waited = std::max(waited, step_->waits_for);
    return "";
  }

  bool IsThere(int buffer) const {
    return buffer >= 0 && static_cast<size_t>(buffer) < steps_.buffers.size();
  }
  const StepBuffer& At(int buffer) const { return steps_.buffers[static_cast<size_t>(buffer)]; }

  // It lies within the buffer that it says, which lies in no other.
  bool IsPart(const StepBuffer& part) const {
    if (!IsThere(part.inside)) return false;
    const StepBuffer& whole = At(part.inside);
    const int64_t elements = part.extents.NumElements();
    return whole.home != Home::kInside && whole.dtype == part.dtype && part.offset >= 0 &&
           elements <= whole.extents.NumElements() &&
           part.offset <= whole.extents.NumElements() - elements;
  }

  // It has memory when this step is done.
  bool IsHeld(int buffer) const {
    if (!IsThere(buffer) || At(buffer).home == Home::kNowhere) return false;
    if (At(buffer).home == Home::kInside) return IsHeld(At(buffer).inside);
    if (At(buffer).home != Home::kReturned) return true;
    const int made_at = made_at_[static_cast<size_t>(buffer)];
    if (made_at == kNever || number_ > At(buffer).last_step) return false;
    const bool is_same_lane = steps_.steps[static_cast<size_t>(made_at)].lane == step_->lane;
    return is_same_lane || has_waited_for_[static_cast<size_t>(step_->lane)] >= made_at;
  }

  bool IsInside(const Span& span) const {
    if (span.count == 0) return true;
    if (!IsHeld(span.buffer) || span.count < 0 || span.offset < 0) return false;
    const int64_t elements = At(span.buffer).extents.NumElements();
    return span.count <= elements && span.offset <= elements - span.count;
  }
  bool IsInside(const CopyStep& copy, int buffer, const Window& window) const {
    if (!IsHeld(buffer) || window.strides.ndim() != copy.extents.ndim()) return false;
    return IsAscending(window, copy.extents) && OffsetOf(copy.first, window, copy.extents) >= 0 &&
           OffsetOf(copy.first + copy.count - 1, window, copy.extents) <
               At(buffer).extents.NumElements();
  }

  std::string WhyWrong(const CallStep& call) {
    if (call.op >= program_.ops().size()) return "it calls for no operation";
    const auto* const op = std::get_if<CallOp>(&program_.ops()[call.op].what);
    if (op == nullptr || op->arguments.size() != call.argument_buffers.size() ||
        (op->result == kNoValue) != (call.result_buffer < 0)) {
      return "it is not the call of its operation";
    }
    for (size_t i = 0; i < op->arguments.size(); ++i) {
      const bool is_literal = op->arguments[i].use == CallArgument::Use::kLiteral;
      const int buffer = call.argument_buffers[i];
      if (is_literal ? buffer >= 0 : !IsHeld(buffer)) return "it passes a buffer that is not there";
    }
    if (call.result_buffer < 0) return "";
    if (!IsThere(call.result_buffer) || At(call.result_buffer).home != Home::kReturned) {
      return "there is no place for its result";
    }
    made_at_[static_cast<size_t>(call.result_buffer)] = number_;
    return "";
  }

  std::string WhyWrong(const CopyStep& copy) const {
    if (copy.count == 0) {
      // Who executes it looks up what they hold.
      const bool are_there = IsThere(copy.from_buffer) && IsThere(copy.to_buffer);
      return are_there ? "" : "its buffer is not there";
    }
    const bool is_some = copy.extents.Validate().ok() && copy.first >= 0 && copy.count > 0 &&
                         copy.count <= copy.extents.NumElements() &&
                         copy.first <= copy.extents.NumElements() - copy.count;
    if (!is_some) return "it copies elements that its box does not have";
    if (!IsInside(copy, copy.from_buffer, copy.from)) return "it reads outside its buffer";
    if (!IsInside(copy, copy.to_buffer, copy.to)) return "it writes outside its buffer";
    if (At(copy.from_buffer).dtype == At(copy.to_buffer).dtype) return "";
    return "it copies between two dtypes";
  }

  std::string WhyWrong(const FillStep& fill) const {
    if (!IsThere(fill.to.buffer)) return "its buffer is not there";
    return IsInside(fill.to) ? "" : "it writes outside its buffer";
  }

  std::string WhyWrong(const CollectiveStep& step) const {
    if (!IsInside(step.send)) return "it reads outside its buffer";
    if (!IsInside(step.recv)) return "it writes outside its buffer";
    if (!IsThere(step.send.buffer)) return "its buffer is not there";
    if (step.recv.count > 0 && At(step.send.buffer).dtype != At(step.recv.buffer).dtype) {
      return "it has two dtypes";
    }
    const bool is_numbered =
        step.number >= 0 && static_cast<size_t>(step.number) < steps_.teams.size();
    if (!is_numbered || step.team.empty() ||
        steps_.teams[static_cast<size_t>(step.number)]->With(rank_) != step.team) {
      return "its team is none of the program's";
    }
    return AreCountsRight(step) ? "" : "its counts are not those of its team and its buffers";
  }

  bool AreCountsRight(const CollectiveStep& step) const {
    if (step.kind == OperationKind::kAllReduce) return step.send.count == step.recv.count;
    const auto are_for_all = [&](const std::vector<int64_t>& counts) {
      return counts.size() == step.team.size() &&
             std::all_of(counts.begin(), counts.end(), [](int64_t count) { return count >= 0; });
    };
    if (!are_for_all(step.counts)) return false;
    const auto own = static_cast<size_t>(std::find(step.team.begin(), step.team.end(), rank_) -
                                         step.team.begin());
    switch (step.kind) {
      case OperationKind::kAllGather:
        return step.counts[own] == step.send.count && Sum(step.counts) == step.recv.count;
      case OperationKind::kReduceScatter:
        return step.counts[own] == step.recv.count && Sum(step.counts) == step.send.count;
      case OperationKind::kAllToAll:
        return are_for_all(step.recv_counts) && Sum(step.counts) == step.send.count &&
               Sum(step.recv_counts) == step.recv.count;
      default:
        return false;
    }
  }

  const Program& program_;
  const ProgramSteps& steps_;
  const Rank rank_;
  int number_ = 0;  // of the step that is looked at
  const ProgramStep* step_ = nullptr;
  std::vector<int> made_at_;  // by buffer: the step whose function has returned it
  std::array<int, 2> has_waited_for_ = {kNever, kNever};  // by lane: a step of the other
};

}  // namespace

Status CheckSteps(const Program& program, const ProgramSteps& steps, Rank rank) {
  return Checker(program, steps, rank).Run();
}

}  // namespace lockstep::plan
