#include "runtime/plan/steps/simulator.h"

#include <algorithm>
#include <cstring>
#include <deque>
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
  Simulation(std::map<Rank, SimulatedRank>& ranks, const SimulatedCall& call)
      : ranks_(ranks), call_(call) {}

  Status Run() {
    for (const auto& [rank, state] : ranks_) {
      next_[rank] = 0;
      ready_.push_back(rank);
    }
    while (!ready_.empty()) {
      const Rank rank = ready_.front();
      ready_.pop_front();
      LOCKSTEP_RETURN_IF_ERROR(Advance(rank, ranks_.at(rank)));
    }
    for (const auto& [rank, state] : ranks_) {
      if (next_[rank] == state.program.steps.size()) continue;
      return FailedPrecondition("rank ", rank, " waits at step ", next_[rank], " for ",
                                ListRanks(TeamAt(rank)), ", and they never come to it");
    }
    return OkStatus();
  }

 private:
  Status WrongAt(Rank rank, const std::string& what) const {
    return InvalidArgument("rank ", rank, ", step ", next_.at(rank), ": ", what);
  }

  const std::vector<Rank>& TeamAt(Rank rank) const {
    return std::get<CollectiveStep>(ranks_.at(rank).program.steps[next_.at(rank)].what).team;
  }

  // The rank's steps up to its next collective; that as well, with all of its team, if they have
  // come to it.
  Status Advance(Rank rank, SimulatedRank& state) {
    size_t& next = next_[rank];
    for (; next < state.program.steps.size(); ++next) {
      const auto& step = state.program.steps[next].what;
      if (const auto* copy = std::get_if<CopyStep>(&step)) {
        LOCKSTEP_RETURN_IF_ERROR(Copy(rank, *copy));
      } else if (const auto* fill = std::get_if<FillStep>(&step)) {
        LOCKSTEP_RETURN_IF_ERROR(Fill(rank, *fill));
      } else if (const auto* one = std::get_if<CallStep>(&step)) {
        if (call_ == nullptr) return WrongAt(rank, "what its function does is not known");
        LOCKSTEP_RETURN_IF_ERROR(call_(rank, *one, state));
      } else {
        return Arrive(rank, std::get<CollectiveStep>(step));
      }
    }
    return OkStatus();
  }

  Status Arrive(Rank rank, const CollectiveStep& collective) {
    const std::vector<Rank>& team = collective.team;
    if (std::find(team.begin(), team.end(), rank) == team.end()) {
      return WrongAt(rank, "it is not in the team of its collective");
    }
    // A rank waits in one place, so as many as the team has are the team.
    if (++arrived_[team] < team.size()) return OkStatus();
    arrived_.erase(team);
    LOCKSTEP_RETURN_IF_ERROR(CheckAgreement(collective));
    LOCKSTEP_RETURN_IF_ERROR(Execute(collective));
    for (Rank member : team) {
      ++next_[member];
      ready_.push_back(member);
    }
    return OkStatus();
  }

  DType DTypeOf(Rank rank, int buffer) const {
    const std::vector<StepBuffer>& buffers = ranks_.at(rank).program.buffers;
    const auto number = static_cast<size_t>(buffer);
    return number < buffers.size() ? buffers[number].dtype : DType::kUInt8;
  }

  StatusOr<std::byte*> At(Rank rank, const Span& span) {
    SimulatedRank& state = ranks_.at(rank);
    const std::vector<StepBuffer>& buffers = state.program.buffers;
    const auto number = static_cast<size_t>(span.buffer);
    const bool exists = span.buffer >= 0 && number < buffers.size();
    const bool is_nowhere = exists && buffers[number].home == StepBuffer::Home::kNowhere;
    const int64_t elements = exists && !is_nowhere ? buffers[number].extents.NumElements() : 0;
    if (!exists || span.offset < 0 || span.count < 0 || span.offset > elements - span.count) {
      return WrongAt(rank, "elements [" + std::to_string(span.offset) + ", " +
                               std::to_string(span.offset + span.count) +
                               ") do not lie in buffer " + std::to_string(span.buffer));
    }
    if (is_nowhere) return nullptr;
    return state.At(span.buffer) +
           span.offset * static_cast<int64_t>(SizeOf(buffers[number].dtype));
  }

  Status Copy(Rank rank, const CopyStep& copy) {
    Status status;
    LOCKSTEP_RETURN_IF_ERROR(At(rank, {copy.from_buffer, 0, 0}).status());
    LOCKSTEP_RETURN_IF_ERROR(At(rank, {copy.to_buffer, 0, 0}).status());
    const auto element_bytes = SizeOf(DTypeOf(rank, copy.to_buffer));
    if (SizeOf(DTypeOf(rank, copy.from_buffer)) != element_bytes) {
      return WrongAt(rank, "it copies between buffers of elements of different size");
    }
    ForEachRun(copy, [&](int64_t from, int64_t to, int64_t count) {
      const StatusOr<std::byte*> source = At(rank, {copy.from_buffer, from, count});
      const StatusOr<std::byte*> target = At(rank, {copy.to_buffer, to, count});
      if (!source.ok()) status = source.status();
      if (!target.ok()) status = target.status();
      if (!status.ok()) return;
      std::memmove(*target, *source, static_cast<size_t>(count) * element_bytes);
    });
    return status;
  }

  Status Fill(Rank rank, const FillStep& fill) {
    LOCKSTEP_ASSIGN_OR_RETURN(std::byte * to, At(rank, fill.to));
    VisitDType(DTypeOf(rank, fill.to.buffer), [&]<typename T>(std::type_identity<T>) {
      const T value = tensor::ConvertElement<T>(fill.op == Reduction::kProd ? 1.0f : 0.0f);
      for (int64_t i = 0; i < fill.to.count; ++i) {
        std::memcpy(to + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
      }
    });
    return OkStatus();
  }

  Status CheckAgreement(const CollectiveStep& any) const {
    for (Rank member : any.team) {
      const size_t next = next_.at(member);
      const auto& theirs = std::get<CollectiveStep>(ranks_.at(member).program.steps[next].what);
      if (theirs.kind == any.kind && theirs.op == any.op) continue;
      return FailedPrecondition("ranks ", any.team.front(), " and ", member,
                                " disagree about the collective at step ", next);
    }
    return OkStatus();
  }

  Status Execute(const CollectiveStep& any) {
    std::vector<const CollectiveStep*> steps;
    std::vector<const std::byte*> sent;
    std::vector<std::byte*> received;
    for (Rank member : any.team) {
      steps.push_back(
          &std::get<CollectiveStep>(ranks_.at(member).program.steps[next_[member]].what));
      LOCKSTEP_ASSIGN_OR_RETURN(const std::byte* send, At(member, steps.back()->send));
      LOCKSTEP_ASSIGN_OR_RETURN(std::byte * recv, At(member, steps.back()->recv));
      sent.push_back(send);
      received.push_back(recv);
    }
    LOCKSTEP_RETURN_IF_ERROR(CheckCounts(any.team, steps));
    dtype_ = DTypeOf(any.team.front(), steps.front()->send.buffer);
    element_bytes_ = static_cast<int64_t>(SizeOf(dtype_));
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
          for (size_t from = 0; from < steps.size(); ++from) {
            const int64_t count = steps[from]->counts[to];
            Move(sent[from], received[to], count);
            sent[from] += count * element_bytes_;
            received[to] += count * element_bytes_;
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
  const SimulatedCall& call_;
  // Of the collective that is executed.
  DType dtype_ = DType::kUInt8;
  int64_t element_bytes_ = 1;
  std::map<Rank, size_t> next_;                  // step
  std::deque<Rank> ready_;                       // to go on
  std::map<std::vector<Rank>, size_t> arrived_;  // how many of a team wait for the others of it
};

}  // namespace

void SimulatedRank::Allocate() {
  own.resize(program.buffers.size());
  for (size_t i = 0; i < own.size(); ++i) {
    const StepBuffer& buffer = program.buffers[i];
    const bool is_own =
        buffer.home == StepBuffer::Home::kInput || buffer.home == StepBuffer::Home::kReturned;
    own[i].assign(is_own ? static_cast<size_t>(buffer.size_bytes()) : 0, std::byte{0});
  }
  arena.assign(static_cast<size_t>(program.arena_bytes), std::byte{0});
}

std::byte* SimulatedRank::At(int buffer) {
  const auto number = static_cast<size_t>(buffer);
  const StepBuffer& one = program.buffers[number];
  if (one.home == StepBuffer::Home::kArena) return arena.data() + one.arena_offset;
  if (one.home == StepBuffer::Home::kInside) {
    return At(one.inside) + one.offset * static_cast<int64_t>(SizeOf(one.dtype));
  }
  return own[number].data();
}

Status Simulate(std::map<Rank, SimulatedRank>& ranks, const SimulatedCall& call) {
  return Simulation(ranks, call).Run();
}

}  // namespace lockstep::plan
