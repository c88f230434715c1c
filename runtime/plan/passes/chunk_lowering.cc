#include "runtime/plan/passes/chunk_lowering.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "runtime/plan/chunks.h"
#include "runtime/plan/layout_relations.h"
#include "runtime/plan/lowering/reshard.h"
#include "runtime/plan/lowering/teams.h"

namespace lockstep::plan {
namespace {

// The same ranks add up the same elements in the same order, in both.
bool CombineAlike(const Reshard& a, const Reshard& b) {
  if (a.moves.size() != b.moves.size()) return false;
  for (size_t i = 0; i < a.moves.size(); ++i) {
    if (a.moves[i].kind != b.moves[i].kind || a.moves[i].axes != b.moves[i].axes) return false;
    // Which of several replicas an element is combined of is chosen piece by piece.
    const bool is_chosen = a.moves[i].kind == Move::Kind::kCombine;
    if (is_chosen && !ReplicatedAxes(a.from).empty()) return false;
  }
  return true;
}

bool Rounds(const Layout& from) {
  const bool depends_on_order =
      from.reduction() != Reduction::kMin && from.reduction() != Reduction::kMax;
  return IsFloat(from.dtype()) && !from.PartialAxes().empty() && depends_on_order;
}

std::string Micros(double micros) {
  char text[32];
  std::snprintf(text, sizeof text, micros < 10 ? "%.1f us" : "%.0f us", micros);
  return text;
}

class ChunkLowering {
 public:
  ChunkLowering(const Topology& topology, const CostModel& costs,
                const std::function<bool()>& is_given_up, int64_t most_effort)
      : topology_(topology), costs_(costs), is_given_up_(is_given_up), most_effort_(most_effort) {}

  StatusOr<LoweredChunks> Run(const Program& program) {
    const auto is_same = [this](const ReshardInChunks& reshard) { return IsSame(reshard); };
    LOCKSTEP_ASSIGN_OR_RETURN(ChunkedProgram chunked, ChunkCalls(program, is_same));
    LoweredChunks lowered;
    lowered.program = std::make_shared<const Program>(std::move(chunked.program));
    for (const ChunkedCalls& calls : chunked.calls) {
      for (const std::string& note : calls.notes)
        lowered.notes.push_back(calls.where + ": " + note);
      if (!calls.before.has_value() && !calls.after.has_value()) continue;
      LOCKSTEP_ASSIGN_OR_RETURN(const std::string gain, GainOf(calls));
      lowered.notes.push_back(calls.where + ": " + gain);
    }
    lowered.effort = effort_;
    return lowered;
  }

 private:
  StatusOr<Reshard> Find(const Layout& from, const Layout& to) {
    if (is_given_up_ && is_given_up_()) return Aborted("the program is given up");
    LOCKSTEP_ASSIGN_OR_RETURN(Reshard reshard, LowerReshard(from, to, topology_, costs_));
    effort_ += reshard.effort;
    if (effort_ <= most_effort_) return reshard;
    return ResourceExhausted("to find the ways of the reshards of its chunks takes too long: ",
                             effort_, " looks at ranks and pieces of tensors, and at most ",
                             most_effort_, " are taken; make fewer chunks of it");
  }

  // Calls visit(reshard) for those of the chunks; chunks of one pair of layouts are one, with how
  // many they are.
  template <typename Visit>
  Status ForEachChunk(const ReshardInChunks& reshard, Visit&& visit) {
    for (size_t i = 0; i < reshard.chunks_from.size();) {
      size_t end = i + 1;
      while (end < reshard.chunks_from.size() &&
             reshard.chunks_from[end] == reshard.chunks_from[i] &&
             reshard.chunks_to[end] == reshard.chunks_to[i]) {
        ++end;
      }
      LOCKSTEP_ASSIGN_OR_RETURN(const Reshard chunk,
                                Find(reshard.chunks_from[i], reshard.chunks_to[i]));
      visit(chunk, static_cast<double>(end - i));
      i = end;
    }
    return OkStatus();
  }

  StatusOr<bool> IsSame(const ReshardInChunks& reshard) {
    if (!Rounds(reshard.from)) return true;
    LOCKSTEP_ASSIGN_OR_RETURN(const Reshard whole, Find(reshard.from, reshard.to));
    bool is_same = true;
    LOCKSTEP_RETURN_IF_ERROR(ForEachChunk(reshard, [&](const Reshard& chunk, double) {
      is_same = is_same && CombineAlike(whole, chunk);
    }));
    return is_same;
  }

  // How long functions take is not known. What is exchanged for all chunks but one goes on beside
  // them, if they take long enough.
  StatusOr<std::string> GainOf(const ChunkedCalls& calls) {
    double at_once = 0;
    double in_chunks = 0;
    double apart = 0;  // what no call is beside: the first chunk before, the last one after
    for (const std::optional<ReshardInChunks>* const side : {&calls.before, &calls.after}) {
      if (!side->has_value()) continue;
      LOCKSTEP_ASSIGN_OR_RETURN(const Reshard whole, Find((*side)->from, (*side)->to));
      at_once += whole.cost_us;
      double of_one = 0;
      LOCKSTEP_RETURN_IF_ERROR(ForEachChunk(**side, [&](const Reshard& chunk, double times) {
        in_chunks += times * chunk.cost_us;
        of_one = std::max(of_one, chunk.cost_us);
      }));
      apart += of_one;
    }
    const std::string what = "in " + std::to_string(calls.count) + " chunks: " + Micros(in_chunks) +
                             " of reshards instead of " + Micros(at_once) + ", of which ";
    const double gain = at_once - apart;
    if (gain <= 0) {
      return what + "so little goes on beside calls that it takes longer than at once";
    }
    return what + Micros(in_chunks - apart) + " can go on beside the calls; gains up to " +
           Micros(gain) + " where lanes overlap, if the calls take that long";
  }

  const Topology& topology_;
  const CostModel& costs_;
  const std::function<bool()>& is_given_up_;
  const int64_t most_effort_;
  int64_t effort_ = 0;
};

bool HasChunks(const ProgramOp& op) {
  const auto* const call = std::get_if<CallOp>(&op.what);
  return call != nullptr && call->chunks.has_value() && call->chunks->count > 1;
}

}  // namespace

StatusOr<LoweredChunks> LowerChunks(std::shared_ptr<const Program> program,
                                    const Topology& topology, const CostModel& costs,
                                    const std::function<bool()>& is_given_up, int64_t most_effort) {
  if (std::none_of(program->ops().begin(), program->ops().end(), HasChunks)) {
    return LoweredChunks{std::move(program), {}, 0};
  }
  return ChunkLowering(topology, costs, is_given_up, most_effort).Run(*program);
}

}  // namespace lockstep::plan
