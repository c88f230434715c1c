#include "services/worker/execute/reshard_command.h"

#include <algorithm>
#include <map>
#include <string>

#include "runtime/plan/layout_codec.h"
#include "runtime/plan/lowering/reshard.h"
#include "runtime/plan/lowering/teams.h"
#include "runtime/plan/passes/program_lowering.h"
#include "runtime/plan/steps/check_steps.h"
#include "runtime/plan/steps/held_bytes.h"
#include "runtime/plan/steps/program_steps.h"
#include "runtime/registers/value.h"
#include "runtime/tensor/processor.h"
#include "runtime/tensor/tensor.h"
#include "services/worker/values/reachable.h"

namespace lockstep::worker {
namespace {

using tensor::Tensor;

// Those of a program of one reshard.
constexpr size_t kInputBuffer = 0;
constexpr size_t kOutputBuffer = 1;

std::optional<Shape> TileShapeOn(const plan::Layout& layout, Rank rank) {
  const std::optional<int> index = layout.mesh().IndexOf(rank);
  if (!index.has_value()) return std::nullopt;
  return layout.TileAt(*index).extents;
}

// The command's word against what the register carries.
Status CheckLies(const SessionState& session, RegisterId source, const plan::Layout& from) {
  const registers::LayoutPtr known = session.registers().LayoutOf(source);
  if (known == nullptr || *known == from) return OkStatus();
  return InvalidArgument("the source (register ", source, ") is said to be ", from,
                         ", and it is known to be ", *known,
                         ": say how it lies by DeclareLayout(), if that has changed");
}

// One command on this rank.
class ReshardCall {
 public:
  ReshardCall(const PlanExecution::Worker& worker, const PreparedReshard& prepared, DType dtype)
      : worker_(worker), prepared_(prepared), dtype_(dtype), steps_(prepared.program) {}

  Status Execute(RegisterId source, RegisterId result) {
    steps_.place = &PlaceOf(context_, *prepared_.program->lowered.program);
    LOCKSTEP_RETURN_IF_ERROR(MakeTensors(source));
    LOCKSTEP_RETURN_IF_ERROR(Connect());
    LOCKSTEP_RETURN_IF_ERROR(PlanExecution(steps_, worker_).Run());
    if (!prepared_.new_tile.has_value()) return OkStatus();
    LOCKSTEP_ASSIGN_OR_RETURN(Tensor moved,
                              tensor::MoveTo(*home_, *steps_.place, steps_.tensors[kOutputBuffer]));
    return context_.session.Write(result, std::move(moved), prepared_.new_layout);
  }

 private:
  // This rank's tile, where data is moved.
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
    return tensor::MoveTo(*steps_.place, *home_, *tensor);
  }

  Status MakeTensors(RegisterId source) {
    const int64_t output = prepared_.new_tile.has_value() ? prepared_.new_tile->NumElements() : 0;
    LOCKSTEP_RETURN_IF_ERROR(context_.session.registers().CheckRoom(
        static_cast<size_t>(output) * SizeOf(dtype_) +
        static_cast<size_t>(prepared_.program->steps.arena_bytes)));
    if (prepared_.old_tile.has_value()) {
      LOCKSTEP_ASSIGN_OR_RETURN(Tensor tile, Source(source));
      steps_.tensors.Place(kInputBuffer, std::move(tile));
    }
    if (prepared_.new_tile.has_value()) {
      LOCKSTEP_ASSIGN_OR_RETURN(
          Tensor made, Tensor::Empty(steps_.place->allocator(), dtype_, *prepared_.new_tile));
      steps_.tensors.Place(kOutputBuffer, std::move(made));
    }
    return steps_.tensors.TakeArena(*steps_.place, context_.session.registers());
  }

  // All ranks go through all teams, in one order: they keep the same communicators.
  Status Connect() {
    for (const std::shared_ptr<const plan::Teams>& teams : prepared_.program->steps.teams) {
      for (const plan::Team& team : *teams) {
        const bool is_in = std::find(team.begin(), team.end(), context_.rank) != team.end();
        LOCKSTEP_ASSIGN_OR_RETURN(
            const Communicators* const made,
            context_.session.CommunicatorsOf({TeamName::Kind::kTeam, team},
                                             is_in ? team : std::vector<Rank>(), context_.world,
                                             context_.deadline));
        if (is_in) teams_[team] = *made;
      }
    }
    steps_.UseTeams(teams_);
    return OkStatus();
  }

  const PlanExecution::Worker& worker_;
  const CollectiveContext& context_ = worker_.context;
  const PreparedReshard& prepared_;
  const DType dtype_;
  // Where the result is to lie: with the source, or where tensors are made.
  tensor::Processor* home_ = &context_.places.Home();
  // Held: the session may give some of them up to make others.
  std::map<plan::Team, Communicators> teams_;
  BoundSteps steps_;
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
  LOCKSTEP_ASSIGN_OR_RETURN(plan::Reshard reshard,
                            plan::LowerReshard(from, to, topology_, plan::CostModel()));
  plan::LoweredProgram lowered = plan::ProgramOf(std::move(reshard));
  plan::ProgramSteps steps = plan::ExpandProgram(lowered, rank_, {.outputs_apart = true});
  LOCKSTEP_RETURN_IF_ERROR(plan::CheckSteps(*lowered.program, steps, rank_));
  // What all other ranks exchange is of no use here any more.
  lowered.ops = {};
  auto prepared = std::make_shared<const PreparedReshard>(PreparedReshard{
      TileShapeOn(from, rank_), TileShapeOn(to, rank_), std::make_shared<const plan::Layout>(to),
      std::make_shared<const PreparedProgram>(
          PreparedProgram{std::move(lowered), std::move(steps)})});
  entries_.Add({from, to, prepared}, sizeof(Entry) + prepared->program->HeldBytes());
  return prepared;
}

Status ExecuteReshard(const PlanExecution::Worker& worker, wire::Command::Reshard::Reader command,
                      ReshardCache& cache) {
  const int world_size = worker.context.world_size;
  LOCKSTEP_ASSIGN_OR_RETURN(const plan::Layout from,
                            plan::ReadLayout(command.getLayouts().getFrom(), world_size));
  LOCKSTEP_ASSIGN_OR_RETURN(const plan::Layout to,
                            plan::ReadLayout(command.getLayouts().getTo(), world_size));
  const RegisterId source = RegisterId::FromPacked(command.getSource());
  LOCKSTEP_RETURN_IF_ERROR(CheckLies(worker.context.session, source, from));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::shared_ptr<const PreparedReshard> prepared,
                            cache.Prepare(from, to));
  LOCKSTEP_RETURN_IF_ERROR(ReshardCall(worker, *prepared, from.dtype())
                               .Execute(source, RegisterId::FromPacked(command.getResult())));
  if (command.getForFragment() && worker.recorder != nullptr) {
    worker.recorder->AddFragmentInput(plan::BytesNewTo(worker.context.rank, from, to));
  }
  return OkStatus();
}

}  // namespace lockstep::worker
