#include "services/worker/execute/plan_commands.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/cores.h"
#include "runtime/base/version.h"
#include "runtime/plan/lowering/topology.h"
#include "runtime/plan/plan_key.h"

namespace lockstep::worker {
namespace {

// The program that the command carries, or names by its key.
StatusOr<plan::EncodedProgram> ProgramOf(wire::Binding::Reader binding,
                                         const SessionState& session) {
  if (binding.isProgram()) {
    const auto bytes = binding.getProgram();
    return plan::CopyEncoded({reinterpret_cast<const std::byte*>(bytes.begin()), bytes.size()});
  }
  if (!binding.isKnown()) {
    return Unimplemented("unknown kind ", static_cast<int>(binding.which()),
                         " of a program; this worker is Lockstep ", kBuildVersion);
  }
  const plan::PlanKey key{binding.getKnown().getHigh(), binding.getKnown().getLow()};
  const plan::EncodedProgram* const known = session.programs().Find(key);
  if (known != nullptr) return *known;
  return InvalidArgument("the program ", key.ToString(), " is named by its key, and session ",
                         session.id(), " has none of that key here: send it whole, first");
}

}  // namespace

StatusOr<std::shared_ptr<BoundPlan>> FindPlan(const SessionState& session, RegisterId id) {
  StatusOr<const registers::Value*> value = session.registers().Read(id);
  if (!value.ok()) return Annotate(value.status(), "the plan");
  const auto* object = (*value)->As<std::shared_ptr<registers::Object>>();
  if (object == nullptr || (*object)->kind() != registers::Object::Kind::kPlan) {
    return InvalidArgument("register ", id, " holds ", registers::Describe(**value),
                           ", not a plan that was bound");
  }
  return std::static_pointer_cast<BoundPlan>(*object);
}

void PlanCommands::SetWorld(const Membership& membership, const WorldLinks& world) {
  reshards_.SetWorld(membership.rank, world.nodes);
  lane_ = MakeLane(membership, world);
  programs_.SetWorld({.rank = membership.rank,
                      .world_size = membership.world_size(),
                      .topology = plan::Topology(world.nodes),
                      // The streams of a GPU do.
                      .lanes_overlap = lane_ != nullptr || gpu_ != nullptr,
                      // Else collectives copy what is registered.
                      .same_offsets = gpu_ != nullptr && options_.registered_memory_bytes > 0});
}

// There is one where it is asked for, or where there are more cores than ranks (those that share
// memory are on one host): a thread that waits for others takes none away from those who compute.
std::unique_ptr<CommunicationLane> PlanCommands::MakeLane(const Membership& membership,
                                                          const WorldLinks& world) {
  if (gpu_ != nullptr || options_.plan_lanes == 1) return nullptr;
  if (options_.plan_lanes == 0) {
    const std::vector<int>& nodes = world.nodes;
    if (nodes.empty()) return nullptr;
    const int own = nodes[static_cast<size_t>(membership.rank)];
    if (UsableCores() <= std::count(nodes.begin(), nodes.end(), own)) return nullptr;
  }
  return lane_ != nullptr ? std::move(lane_) : std::make_unique<CommunicationLane>();
}

Status PlanCommands::Reshard(const std::shared_ptr<SessionState>& held,
                             wire::Command::Reshard::Reader reshard) {
  SessionState& session = *held;
  const auto no_call = [](BoundSteps::Call&, registers::Value*) {
    return Internal("a reshard calls nothing");
  };
  const Status status = collectives_.Run(
      session, "reshard", /*is_message=*/false, [&](const CollectiveContext& context) {
        return ExecuteReshard({context, no_call, held, gpu_, recorder_, nullptr}, reshard,
                              reshards_);
      });
  if (recorder_ != nullptr) {
    recorder_->SetPlanCache(PlanCacheCounts::Cache::kReshards, reshards_.use());
  }
  if (gpu_ == nullptr) return status;
  // Tiles may have been copied to where they are moved, and back.
  const Status noted = gpu_->Note(session, {.command = running_.number, .what = "reshard"});
  return status.ok() ? noted : status;
}

Status PlanCommands::Bind(SessionState& session, wire::Command::Bind::Reader bind) {
  running_.Name("bind");
  LOCKSTEP_ASSIGN_OR_RETURN(const plan::EncodedProgram program,
                            ProgramOf(bind.getBinding(), session));
  LOCKSTEP_RETURN_IF_ERROR(session.NoteBound(program));
  // Before others are waited for: that has its own deadline.
  const StatusOr<std::shared_ptr<const PreparedProgram>> prepared =
      programs_.Prepare(program, [&] { return session.Skips(running_.number); });
  if (recorder_ != nullptr) {
    recorder_->SetPlanCache(PlanCacheCounts::Cache::kPrograms, programs_.use());
  }
  LOCKSTEP_RETURN_IF_ERROR(prepared.status());
  const Status bound = collectives_.Run(
      session, "bind", /*is_message=*/false, [&](const CollectiveContext& context) {
        LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<BoundPlan> plan,
                                  BoundPlan::Bind(context, *prepared, bind.getBinding()));
        const RegisterId in = RegisterId::FromPacked(bind.getPlan());
        Status agreed = session.Write(in, std::shared_ptr<registers::Object>(plan));
        // The client may have sent executions already: none is begun before all ranks can.
        if (agreed.ok()) agreed = plan->AwaitOthers(context);
        if (agreed.ok()) return agreed;
        plan->Undo(context);
        (void)session.Kill(in);
        return agreed;
      });
  if (gpu_ == nullptr) return bound;
  // Its memory is filled there.
  const Status noted = gpu_->Note(session, {.command = running_.number, .what = "bind"});
  return bound.ok() ? noted : bound;
}

Status PlanCommands::Execute(const std::shared_ptr<SessionState>& session, BoundPlan& plan,
                             bool step_by_step, PlanExecution::MakeCall call) {
  return collectives_.Run(
      *session, "execute plan", /*is_message=*/false, [&](const CollectiveContext& context) {
        return plan.Execute({context, call, session, gpu_, recorder_, lane_.get(),
                             options_.plan_graphs == "auto" && !step_by_step});
      });
}

}  // namespace lockstep::worker
