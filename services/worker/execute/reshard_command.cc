#include "services/worker/execute/reshard_command.h"

#include <algorithm>
#include <array>
#include <string>

#include "runtime/collective/communicator.h"
#include "runtime/plan/expand.h"
#include "runtime/plan/held_bytes.h"
#include "runtime/plan/layout_codec.h"
#include "runtime/plan/reshard.h"
#include "runtime/plan/teams.h"
#include "runtime/registers/value.h"
#include "runtime/tensor/processor.h"
#include "runtime/tensor/tensor.h"
#include "services/worker/execute/step_runner.h"
#include "services/worker/values/reachable.h"

namespace lockstep::worker {
namespace {

using tensor::Tensor;

constexpr size_t kInputBuffer = 0;
constexpr size_t kOutputBuffer = 1;
constexpr size_t kScratch = 2;  // whatever its number, any other buffer lies there

std::optional<Shape> TileShapeOn(const plan::Layout& layout, Rank rank) {
  const std::optional<int> index = layout.mesh().IndexOf(rank);
  if (!index.has_value()) return std::nullopt;
  return layout.TileAt(*index).extents;
}

// One command on this rank.
class ReshardCall {
 public:
  ReshardCall(const CollectiveContext& context, const PreparedReshard& prepared, DType dtype)
      : context_(context), prepared_(prepared), dtype_(dtype) {}

  Status Execute(RegisterId source, RegisterId result) {
    LOCKSTEP_RETURN_IF_ERROR(MakeBuffers(source));
    // All ranks go through all teams, in one order: they keep the same communicators.
    for (size_t number = 0; number < prepared_.teams.size(); ++number) {
      for (const std::vector<Rank>& team : prepared_.teams[number]) {
        LOCKSTEP_RETURN_IF_ERROR(MeetIn(team, static_cast<int>(number)));
      }
    }
    LOCKSTEP_RETURN_IF_ERROR(RunLocalSteps());
    if (!prepared_.new_tile.has_value()) return OkStatus();
    LOCKSTEP_ASSIGN_OR_RETURN(
        Tensor moved, tensor::MoveTo(*home_, *context_.places.host, buffers_[kOutputBuffer]));
    return context_.session.Write(result, std::move(moved));
  }

 private:
  // This rank's tile, in host memory.
  StatusOr<Tensor> Source(RegisterId id) {
    StatusOr<const registers::Value*> value = context_.session.registers().Read(id);
    if (!value.ok()) return Annotate(value.status(), "the source");
    const auto* tensor = (*value)->As<Tensor>();
    if (tensor == nullptr) {
      return InvalidArgument("the source (register ", id, ") holds ", registers::Describe(**value),
                             ", not a tensor");
    }
    LOCKSTEP_RETURN_IF_ERROR(RequireReachable(context_.places, *tensor, "the source"));
    if (tensor->dtype() != dtype_ || !(tensor->shape() == *prepared_.old_tile)) {
      return InvalidArgument("by its layout, this rank's tile is ", dtype_, *prepared_.old_tile,
                             ", and the source (register ", id, ") holds ", tensor->dtype(),
                             tensor->shape());
    }
    home_ = context_.places.Of(tensor->device());
    return tensor::MoveTo(*context_.places.host, *home_, *tensor);
  }

  // Input, output, and scratch memory for all others.
  Status MakeBuffers(RegisterId source) {
    const plan::RankSteps& steps = prepared_.steps;
    const int64_t output = prepared_.new_tile.has_value() ? prepared_.new_tile->NumElements() : 0;
    LOCKSTEP_RETURN_IF_ERROR(context_.session.registers().CheckRoom(
        static_cast<size_t>(output + steps.scratch_elements) * SizeOf(dtype_)));
    if (prepared_.old_tile.has_value()) {
      LOCKSTEP_ASSIGN_OR_RETURN(buffers_[kInputBuffer], Source(source));
    }
    tensor::Allocator& allocator = context_.places.host->allocator();
    if (prepared_.new_tile.has_value()) {
      LOCKSTEP_ASSIGN_OR_RETURN(buffers_[kOutputBuffer],
                                Tensor::Empty(allocator, dtype_, *prepared_.new_tile));
    }
    if (steps.scratch_elements > 0) {
      LOCKSTEP_ASSIGN_OR_RETURN(buffers_[kScratch],
                                Tensor::Empty(allocator, dtype_, Shape({steps.scratch_elements})));
    }
    for (size_t i = 0; i < steps.scratch_offsets.size(); ++i) {
      const Tensor& tensor = buffers_[std::min(i, kScratch)];
      const auto offset = static_cast<size_t>(steps.scratch_offsets[i]) * SizeOf(dtype_);
      memory_.push_back(tensor.IsNull() ? nullptr : tensor.data_as<std::byte>() + offset);
    }
    return OkStatus();
  }

  // Runs this rank's steps up to the collective of that number in that team, if it is in it.
  Status MeetIn(const std::vector<Rank>& team, int number) {
    const bool is_in = std::find(team.begin(), team.end(), context_.rank) != team.end();
    LOCKSTEP_ASSIGN_OR_RETURN(const Communicators* const connected,
                              context_.session.CommunicatorsOf({TeamName::Kind::kTeam, team},
                                                               is_in ? team : std::vector<Rank>(),
                                                               context_.world, context_.deadline));
    if (!is_in) return OkStatus();
    LOCKSTEP_RETURN_IF_ERROR(RunLocalSteps());
    // A team of ranks without any data meets for nothing, and does not.
    if (next_ == prepared_.steps.steps.size()) return OkStatus();
    const auto& step = std::get<plan::CollectiveStep>(prepared_.steps.steps[next_]);
    if (step.number != number) return OkStatus();
    ++next_;
    const auto [first, last] = std::minmax_element(team.begin(), team.end());
    context_.activity.Among(*first, *last);
    return RunCollective(step, memory_, dtype_, *connected->cpus, context_.deadline);
  }

  // The steps before the next collective.
  Status RunLocalSteps() {
    tensor::Processor& host = *context_.places.host;
    for (; next_ < prepared_.steps.steps.size(); ++next_) {
      const plan::Step& step = prepared_.steps.steps[next_];
      if (const auto* copy = std::get_if<plan::CopyStep>(&step)) {
        LOCKSTEP_RETURN_IF_ERROR(RunCopy(*copy, memory_, SizeOf(dtype_), host));
      } else if (const auto* fill = std::get_if<plan::FillStep>(&step)) {
        LOCKSTEP_RETURN_IF_ERROR(RunFill(*fill, memory_, dtype_, host));
      } else {
        break;
      }
    }
    return OkStatus();
  }

  const CollectiveContext& context_;
  const PreparedReshard& prepared_;
  const DType dtype_;
  // Where the result is to lie: with the source, or where tensors are made.
  tensor::Processor* home_ = &context_.places.Home();
  std::array<Tensor, kScratch + 1> buffers_;  // in host memory
  std::vector<std::byte*> memory_;            // by number
  size_t next_ = 0;                           // step
};

}  // namespace

void ReshardCache::SetWorld(Rank rank, std::vector<int> nodes) {
  rank_ = rank;
  topology_ = plan::Topology(std::move(nodes));
  entries_.Clear();
}

StatusOr<std::shared_ptr<const PreparedReshard>> ReshardCache::Prepare(const plan::Layout& from,
                                                                       const plan::Layout& to) {
  const Entry* const known =
      entries_.Use([&](const Entry& entry) { return entry.from == from && entry.to == to; });
  if (known != nullptr) return known->prepared;
  LOCKSTEP_ASSIGN_OR_RETURN(const plan::Reshard reshard,
                            plan::LowerReshard(from, to, topology_, plan::CostModel()));
  plan::RankSteps steps = plan::Expand(reshard, rank_);
  plan::PlaceInScratch(steps);
  auto prepared = std::make_shared<const PreparedReshard>(PreparedReshard{
      TileShapeOn(from, rank_), TileShapeOn(to, rank_), std::move(steps), plan::TeamsOf(reshard)});
  entries_.Add({from, to, prepared},
               sizeof(Entry) + plan::HeldBytes(prepared->steps) + plan::HeldBytes(prepared->teams));
  return prepared;
}

Status ExecuteReshard(const CollectiveContext& context, wire::Command::Reshard::Reader command,
                      ReshardCache& cache) {
  LOCKSTEP_ASSIGN_OR_RETURN(const plan::Layout from,
                            plan::ReadLayout(command.getLayouts().getFrom(), context.world_size));
  LOCKSTEP_ASSIGN_OR_RETURN(const plan::Layout to,
                            plan::ReadLayout(command.getLayouts().getTo(), context.world_size));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::shared_ptr<const PreparedReshard> prepared,
                            cache.Prepare(from, to));
  return ReshardCall(context, *prepared, from.dtype())
      .Execute(RegisterId::FromPacked(command.getSource()),
               RegisterId::FromPacked(command.getResult()));
}

}  // namespace lockstep::worker
