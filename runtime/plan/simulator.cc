#include "runtime/plan/simulator.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "runtime/base/rank_text.h"
#include "runtime/tensor/element.h"

namespace lockstep::plan {
namespace {

using tensor::VisitDType;

// The type that a reduction of T is computed in.
template <typename T>
struct WideOf {
  using Type = T;
};
template <>
struct WideOf<Float16> {
  using Type = float;
};
template <>
struct WideOf<BFloat16> {
  using Type = float;
};
template <>
struct WideOf<tensor::Bool8> {
  using Type = int64_t;
};

template <typename W>
W Combined(Reduction op, W a, W b) {
  if constexpr (std::is_integral_v<W>) {
    // Sums and products wrap, as the backends' do.
    using U = std::make_unsigned_t<W>;
    if (op == Reduction::kSum || op == Reduction::kAvg) {
      return static_cast<W>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    }
    if (op == Reduction::kProd) {
      return static_cast<W>(uint64_t{static_cast<U>(a)} * uint64_t{static_cast<U>(b)});
    }
  } else {
    if (op == Reduction::kSum || op == Reduction::kAvg) return a + b;
    if (op == Reduction::kProd) return a * b;
  }
  return op == Reduction::kMin ? std::min(a, b) : std::max(a, b);
}

// Element `i` of all of `sources`, combined in their order.
template <typename T>
T CombineElements(Reduction op, const std::vector<const std::byte*>& sources, int64_t i) {
  using W = typename WideOf<T>::Type;
  W result{};
  for (size_t s = 0; s < sources.size(); ++s) {
    T value;
    std::memcpy(&value, sources[s] + static_cast<size_t>(i) * sizeof(T), sizeof(T));
    W wide;
    if constexpr (std::is_same_v<T, tensor::Bool8>) {
      wide = value.byte != 0 ? 1 : 0;
    } else {
      wide = tensor::ConvertElement<W>(value);
    }
    result = s == 0 ? wide : Combined(op, result, wide);
  }
  if constexpr (!std::is_same_v<T, tensor::Bool8>) {
    if (op == Reduction::kAvg) result = static_cast<W>(result / static_cast<W>(sources.size()));
  }
  return tensor::ConvertElement<T>(result);
}

class Simulation {
 public:
  Simulation(std::map<Rank, SimulatedRank>& ranks, DType dtype)
      : ranks_(ranks), dtype_(dtype), element_bytes_(static_cast<int64_t>(SizeOf(dtype))) {}

  Status Run() {
    for (auto& [rank, state] : ranks_) {
      const RankSteps& program = state.program;
      state.buffers.resize(kScratch + 1);
      for (size_t i = 0; i <= kScratch; ++i) {
        const int64_t elements =
            i == kScratch ? program.scratch_elements : program.buffer_elements[i];
        state.buffers[i].resize(static_cast<size_t>(elements * element_bytes_));
      }
      next_[rank] = 0;
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (auto& [rank, state] : ranks_) {
        LOCKSTEP_ASSIGN_OR_RETURN(const bool advanced, Advance(rank, state));
        moved |= advanced;
      }
    }
    for (const auto& [rank, state] : ranks_) {
      if (next_[rank] == state.program.steps.size()) continue;
      return FailedPrecondition("rank ", rank, " waits at step ", next_[rank], " for ",
                                ListRanks(TeamAt(rank)), ", and they never come to it");
    }
    return OkStatus();
  }

 private:
  static constexpr size_t kScratch = 2;  // what is neither input nor output lies there

  Status WrongAt(Rank rank, const std::string& what) const {
    return InvalidArgument("rank ", rank, ", step ", next_.at(rank), ": ", what);
  }

  const std::vector<Rank>& TeamAt(Rank rank) const {
    return std::get<CollectiveStep>(ranks_.at(rank).program.steps[next_.at(rank)]).team;
  }

  // The rank's steps up to a collective whose team has not come yet; false if there are none.
  StatusOr<bool> Advance(Rank rank, SimulatedRank& state) {
    bool advanced = false;
    while (next_[rank] < state.program.steps.size()) {
      const Step& step = state.program.steps[next_[rank]];
      if (const auto* copy = std::get_if<CopyStep>(&step)) {
        LOCKSTEP_RETURN_IF_ERROR(Copy(rank, state, *copy));
      } else if (const auto* fill = std::get_if<FillStep>(&step)) {
        LOCKSTEP_RETURN_IF_ERROR(Fill(rank, state, *fill));
      } else {
        const auto& collective = std::get<CollectiveStep>(step);
        LOCKSTEP_ASSIGN_OR_RETURN(const bool all, HasWholeTeam(rank, collective));
        if (!all) return advanced;
        LOCKSTEP_RETURN_IF_ERROR(Execute(collective));
        for (Rank member : collective.team) ++next_[member];
        advanced = true;
        continue;
      }
      ++next_[rank];
      advanced = true;
    }
    return advanced;
  }

  StatusOr<std::byte*> At(Rank rank, const Span& span) {
    SimulatedRank& state = ranks_.at(rank);
    const auto& sizes = state.program.buffer_elements;
    if (span.buffer < 0 || span.buffer >= static_cast<int>(sizes.size()) || span.offset < 0 ||
        span.count < 0 || span.offset > sizes[static_cast<size_t>(span.buffer)] - span.count) {
      return WrongAt(rank, "elements [" + std::to_string(span.offset) + ", " +
                               std::to_string(span.offset + span.count) +
                               ") do not lie in buffer " + std::to_string(span.buffer));
    }
    const auto buffer = static_cast<size_t>(span.buffer);
    if (buffer < kScratch) return state.buffers[buffer].data() + span.offset * element_bytes_;
    return state.buffers[kScratch].data() +
           (state.program.scratch_offsets[buffer] + span.offset) * element_bytes_;
  }

  Status Copy(Rank rank, SimulatedRank&, const CopyStep& copy) {
    Status status;
    ForEachRun(copy, [&](int64_t from, int64_t to, int64_t count) {
      const StatusOr<std::byte*> source = At(rank, {copy.from_buffer, from, count});
      const StatusOr<std::byte*> target = At(rank, {copy.to_buffer, to, count});
      if (!source.ok()) status = source.status();
      if (!target.ok()) status = target.status();
      if (!status.ok()) return;
      std::memmove(*target, *source, static_cast<size_t>(count * element_bytes_));
    });
    return status;
  }

  Status Fill(Rank rank, SimulatedRank&, const FillStep& fill) {
    LOCKSTEP_ASSIGN_OR_RETURN(std::byte * to, At(rank, fill.to));
    VisitDType(dtype_, [&]<typename T>(std::type_identity<T>) {
      const T value = tensor::ConvertElement<T>(fill.op == Reduction::kProd ? 1.0f : 0.0f);
      for (int64_t i = 0; i < fill.to.count; ++i) {
        std::memcpy(to + i * element_bytes_, &value, sizeof(T));
      }
    });
    return OkStatus();
  }

  StatusOr<bool> HasWholeTeam(Rank rank, const CollectiveStep& mine) const {
    if (std::find(mine.team.begin(), mine.team.end(), rank) == mine.team.end()) {
      return WrongAt(rank, "it is not in the team of its collective");
    }
    for (Rank member : mine.team) {
      const auto at = ranks_.find(member);
      if (at == ranks_.end()) return false;
      const std::vector<Step>& steps = at->second.program.steps;
      const size_t next = next_.at(member);
      if (next == steps.size()) return false;
      const auto* theirs = std::get_if<CollectiveStep>(&steps[next]);
      if (theirs == nullptr || theirs->team != mine.team) return false;
      if (theirs->kind == mine.kind && theirs->op == mine.op) continue;
      return FailedPrecondition("ranks ", rank, " and ", member,
                                " disagree about the collective at step ", next);
    }
    return true;
  }

  Status Execute(const CollectiveStep& any) {
    std::vector<const CollectiveStep*> steps;
    std::vector<const std::byte*> sent;
    std::vector<std::byte*> received;
    for (Rank member : any.team) {
      steps.push_back(&std::get<CollectiveStep>(ranks_.at(member).program.steps[next_[member]]));
      LOCKSTEP_ASSIGN_OR_RETURN(const std::byte* send, At(member, steps.back()->send));
      LOCKSTEP_ASSIGN_OR_RETURN(std::byte * recv, At(member, steps.back()->recv));
      sent.push_back(send);
      received.push_back(recv);
    }
    LOCKSTEP_RETURN_IF_ERROR(CheckCounts(any.team, steps));
    switch (any.kind) {
      case OperationKind::kAllGather:
        for (size_t to = 0; to < steps.size(); ++to) {
          int64_t offset = 0;
          for (size_t from = 0; from < steps.size(); ++from) {
            Move(sent[from], received[to] + offset, any.counts[from]);
            offset += any.counts[from] * element_bytes_;
          }
        }
        return OkStatus();
      case OperationKind::kAllToAll:
        for (size_t to = 0; to < steps.size(); ++to) {
          int64_t offset = 0;
          for (size_t from = 0; from < steps.size(); ++from) {
            const auto& counts = steps[from]->counts;
            const int64_t skip = std::accumulate(
                counts.begin(), counts.begin() + static_cast<int64_t>(to), int64_t{0});
            Move(sent[from] + skip * element_bytes_, received[to] + offset, counts[to]);
            offset += counts[to] * element_bytes_;
          }
        }
        return OkStatus();
      case OperationKind::kAllReduce:
      case OperationKind::kReduceScatter:
        Reduce(any, steps, sent, received);
        return OkStatus();
      default:
        return WrongAt(any.team.front(), "a plan has no " + std::string(FactsOf(any.kind).name));
    }
  }

  // Every member says the same of who sends how much.
  Status CheckCounts(const std::vector<Rank>& team,
                     const std::vector<const CollectiveStep*>& steps) const {
    const auto sum = [](const std::vector<int64_t>& counts) {
      return std::accumulate(counts.begin(), counts.end(), int64_t{0});
    };
    for (size_t i = 0; i < steps.size(); ++i) {
      const CollectiveStep& step = *steps[i];
      bool fits = false;
      switch (step.kind) {
        case OperationKind::kAllReduce:
          fits = step.send.count == steps[0]->send.count && step.recv.count == step.send.count;
          break;
        case OperationKind::kAllGather:
          fits = step.counts.size() == steps.size() && step.counts == steps[0]->counts &&
                 step.send.count == step.counts[i] && step.recv.count == sum(step.counts);
          break;
        case OperationKind::kReduceScatter:
          fits = step.counts.size() == steps.size() && step.counts == steps[0]->counts &&
                 step.recv.count == step.counts[i] && step.send.count == sum(step.counts);
          break;
        default:
          fits = step.counts.size() == steps.size() && step.recv_counts.size() == steps.size() &&
                 step.send.count == sum(step.counts) && step.recv.count == sum(step.recv_counts);
          for (size_t other = 0; fits && other < steps.size(); ++other) {
            fits = steps[other]->counts.size() == steps.size() &&
                   step.recv_counts[other] == steps[other]->counts[i];
          }
      }
      if (!fits) return WrongAt(team[i], "its counts do not fit those of its team");
    }
    return OkStatus();
  }

  void Move(const std::byte* from, std::byte* to, int64_t count) const {
    if (count > 0) std::memmove(to, from, static_cast<size_t>(count * element_bytes_));
  }

  void Reduce(const CollectiveStep& any, const std::vector<const CollectiveStep*>& steps,
              const std::vector<const std::byte*>& sent, const std::vector<std::byte*>& received) {
    VisitDType(dtype_, [&]<typename T>(std::type_identity<T>) {
      if constexpr (!std::is_same_v<T, Float8E4M3> && !std::is_same_v<T, Float8E5M2>) {
        std::vector<T> combined(static_cast<size_t>(steps[0]->send.count));
        for (size_t i = 0; i < combined.size(); ++i) {
          combined[i] = CombineElements<T>(any.op, sent, static_cast<int64_t>(i));
        }
        int64_t offset = 0;
        for (size_t to = 0; to < steps.size(); ++to) {
          const auto* from = reinterpret_cast<const std::byte*>(combined.data());
          Move(from + offset * element_bytes_, received[to], steps[to]->recv.count);
          if (any.kind == OperationKind::kReduceScatter) offset += any.counts[to];
        }
      }
    });
  }

  std::map<Rank, SimulatedRank>& ranks_;
  const DType dtype_;
  const int64_t element_bytes_;
  std::map<Rank, size_t> next_;  // step
};

}  // namespace

Status Simulate(std::map<Rank, SimulatedRank>& ranks, DType dtype) {
  return Simulation(ranks, dtype).Run();
}

}  // namespace lockstep::plan
