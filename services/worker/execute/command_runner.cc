#include "services/worker/execute/command_runner.h"

#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "runtime/base/log.h"
#include "runtime/base/version.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "runtime/module/module.h"
#include "runtime/module/module_files.h"
#include "services/worker/execute/bound_plan.h"
#include "services/worker/execute/collective_command.h"
#include "services/worker/execute/layout_command.h"
#include "services/worker/execute/lend_command.h"
#include "services/worker/execute/team.h"
#include "services/worker/values/reachable.h"
#include "services/worker/values/value_transfer.h"

namespace lockstep::worker {

CommandRunner::CommandRunner(const Parts& parts)
    : options_(parts.options),
      arena_(parts.arena),
      host_(tensor::NewHostProcessor(parts.arena)),
      functions_(parts.functions),
      bulk_(parts.bulk),
      reports_(parts.reports),
      activity_(parts.activity),
      recorder_(parts.recorder),
      running_(parts.running),
      collectives_(
          {call_context_, parts.activity, parts.recorder, parts.running, parts.cause_grace}),
      plans_(parts.options, collectives_, parts.recorder, parts.running),
      fragments_(parts.options.fragment_threads, parts.activity, parts.recorder, parts.running) {
  call_context_.host = host_.get();
  call_context_.aborted = [](void* runner) {
    const auto& self = *static_cast<const CommandRunner*>(runner);
    return self.calling_->Skips(self.running_.number);
  };
  call_context_.aborted_state = this;
}

void CommandRunner::SetMembership(const Membership& membership) {
  membership_ = &membership;
  collectives_.SetMembership(membership);
  call_context_.rank = membership.rank;
  call_context_.world_size = membership.world_size();
  fragments_.SetPlace(membership.rank, membership.world_size());
}

void CommandRunner::SetWorld(const WorldLinks& world) {
  collectives_.SetWorld(world);
  plans_.SetWorld(*membership_, world);
}

void CommandRunner::UseGpu(collective::Accelerator& gpu, GpuWorkTracker& work) {
  gpu_ = &work;
  plans_.UseGpu(work);
  call_context_.gpu = &gpu.processor();
  call_context_.gpu_stream = gpu.compute_stream();
}

Status CommandRunner::Run(const std::shared_ptr<SessionState>& held,
                          const wire::Command::Reader& command) {
  SessionState& session = *held;
  const Rank only = command.getOnlyRank();
  // Refused by all: what they keep between collectives must not differ.
  if (only >= 0 && (command.isCollective() || command.isReshard() || command.isBind() ||
                    command.isExecute() || command.isRunFragment())) {
    return InvalidArgument("a collective for rank ", only,
                           " alone: every rank executes them; name a team instead");
  }
  if (only >= 0 && only != membership_->rank) return OkStatus();
  switch (command.which()) {
    case wire::Command::CALL: {
      const auto call = command.getCall();
      return Call(session, RegisterId::FromPacked(call.getFunction()),
                  RegisterId::FromPacked(call.getResult()), call.getArgs());
    }
    case wire::Command::SYNC:
      return Sync(session);
    case wire::Command::GET_FUNCTION:
      return GetFunction(session, command.getGetFunction());
    case wire::Command::LOAD_MODULE:
      return LoadModule(session, command.getLoadModule());
    case wire::Command::EMPTY:
      return Empty(session, command.getEmpty());
    case wire::Command::COLLECTIVE:
      return Collective(held, command.getCollective());
    case wire::Command::RESHARD:
      return plans_.Reshard(held, command.getReshard());
    case wire::Command::BIND:
      return plans_.Bind(session, command.getBind());
    case wire::Command::EXECUTE:
      return Execute(held, command.getExecute());
    case wire::Command::RUN_FRAGMENT:
      return RunFragment(session, command.getRunFragment());
    case wire::Command::FETCH:
      return Fetch(session, command.getFetch());
    case wire::Command::STORE:
      return Store(session, command.getStore());
    case wire::Command::LOCATE:
      return Locate(session, command.getLocate());
    case wire::Command::LEND:
      return Lend(session, command.getLend());
    case wire::Command::DECLARE_LAYOUT:
      running_.Name("declare layout");
      return DeclareLayout(session, command.getDeclareLayout(), membership_->world_size());
    case wire::Command::FIND_LAYOUT:
      return FindLayout(session, command.getFindLayout());
    case wire::Command::OPEN_SESSION:
    case wire::Command::CLOSE_SESSION:
    case wire::Command::RESET:
    case wire::Command::NAME_REGISTER:
    case wire::Command::ADOPT:
      return PermissionDenied("sessions are opened, closed and reset by the controller alone");
    case wire::Command::LOAD_FRAGMENT:
      return PermissionDenied("fragments are granted by the controller alone");
    default:
      return Unimplemented("unknown command kind ", static_cast<int>(command.which()),
                           "; this worker is Lockstep ", kBuildVersion);
  }
}

template <typename Arguments>
Status CommandRunner::Call(SessionState& session, RegisterId id, RegisterId result_id,
                           const Arguments& arguments) {
  StatusOr<const registers::Value*> value = session.registers().Read(id);
  if (!value.ok()) return Annotate(value.status(), "the function");
  // Its register holds it until the result is written, which may take that register's place.
  module::Function* const function = module::FunctionIn(**value);
  if (function == nullptr) {
    return InvalidArgument("register ", id, " holds ", registers::Describe(**value),
                           ", which cannot be called");
  }

  // However the call ends: what stays here would outlive its registers, and its session.
  const absl::Cleanup forget_arguments = [this] { arguments_.clear(); };
  for (const auto& argument : arguments) {
    const Status read = AddFromWire(argument, session.registers(), call_context_, &arguments_);
    if (!read.ok()) {
      running_.function = function->name();
      return Annotate(read, "argument " + std::to_string(arguments_.size() + 1));
    }
    ForgetWritten(session, *function, arguments_.size() - 1, argument);
  }
  BeginCalls(session);
  if (recorder_ != nullptr) {
    activity_.Name(function->name(), WorkerActivity::Kind::kCommand);
    recorder_->spans().Name(function->name(), trace::Kind::kCommand);
  }
  registers::Value result;
  Status status = CallFunction(session, *function, arguments_, &result);
  if (status.ok() && result_id.Packed() != 0) status = session.Write(result_id, std::move(result));
  if (!status.ok()) running_.function = function->name();  // then nothing was written
  return status;
}

Status CommandRunner::Run(const std::shared_ptr<SessionState>& session,
                          const control::PlainCall& call) {
  return Call(*session, call.function(), call.result(), call.arguments());
}

Status CommandRunner::CallFunction(SessionState& session, module::Function& function,
                                   absl::Span<const registers::Value> arguments,
                                   registers::Value* result) {
  if (gpu_ == nullptr) return function.Call(call_context_, arguments, result);
  if (gpu_->is_capturing()) return CaptureFunction(function, arguments, result);
  const bool may_use_gpu = function.UsesGpuByItself();
  Status status = StillWanted(session);
  if (status.ok() && may_use_gpu) status = gpu_->BeforeCall(arguments);
  if (status.ok()) status = function.Call(call_context_, arguments, result);
  if (may_use_gpu) status.Update(gpu_->AfterCall());
  // Also after an error: what it has begun goes on.
  const Status noted = gpu_->Note(session, {.command = running_.number,
                                            .what = function.name(),
                                            .may_have_used = may_use_gpu,
                                            .function = &function,
                                            .arguments = arguments,
                                            .result = result});
  return status.ok() ? noted : status;
}

Status CommandRunner::CaptureFunction(module::Function& function,
                                      absl::Span<const registers::Value> arguments,
                                      registers::Value* result) {
  module::CallContext context = call_context_;
  context.gpu_stream = gpu_->compute_stream();
  const bool may_use_gpu = function.UsesGpuByItself();
  if (may_use_gpu) LOCKSTEP_RETURN_IF_ERROR(gpu_->BeforeCall(arguments));
  const Status status = function.Call(context, arguments, result);
  return status.ok() && may_use_gpu ? gpu_->AfterCall() : status;
}

void CommandRunner::BeginCalls(SessionState& session) {
  call_context_.num_groups = session.num_groups();
  calling_ = &session;
  reports_.BeginForwarding(session);
}

Status CommandRunner::Sync(SessionState& session) {
  running_.Name("sync");
  LOCKSTEP_RETURN_IF_ERROR(AwaitGpu(session));
  Reply(control::Frame());
  return OkStatus();
}

// A built-in one, or what a module has registered for the whole process.
StatusOr<std::shared_ptr<module::Function>> CommandRunner::FindFunction(
    const std::string& name) const {
  StatusOr<std::shared_ptr<module::Function>> builtin = functions_.Find(name);
  if (builtin.ok()) return builtin;
  StatusOr<std::shared_ptr<module::Function>> registered = module::FindGlobalFunction(name);
  // The names that are near are told by the table.
  return registered.status().code() == StatusCode::kNotFound ? builtin : registered;
}

StatusOr<std::shared_ptr<module::Function>> CommandRunner::FindFunction(
    const SessionState& session, const std::string& name) const {
  StatusOr<std::shared_ptr<module::Function>> found = FindFunction(name);
  if (found.status().code() != StatusCode::kNotFound) return found;
  std::string in;
  for (const auto& [file, module] : session.modules()) {
    if (module == nullptr) continue;  // it could not be loaded
    StatusOr<std::shared_ptr<module::Function>> own = module->GetFunction(name);
    if (!own.ok()) continue;
    if (!in.empty()) {
      return InvalidArgument("both ", in, " and ", file, " have a function \"", name,
                             "\": call it by GetFunction() of one of them");
    }
    in = file;
    found = std::move(own);
  }
  return found;
}

Status CommandRunner::GetFunction(SessionState& session, wire::Command::GetFunction::Reader get) {
  running_.Name("get function");
  const std::string name = control::ToString(get.getName());
  std::shared_ptr<module::Function> function;
  if (get.getModule() == 0) {
    LOCKSTEP_ASSIGN_OR_RETURN(function, FindFunction(name));
  } else {
    const RegisterId id = RegisterId::FromPacked(get.getModule());
    LOCKSTEP_ASSIGN_OR_RETURN(const registers::Value* const value, session.registers().Read(id));
    const auto* object = value->As<std::shared_ptr<registers::Object>>();
    if (object == nullptr || (*object)->kind() != registers::Object::Kind::kModule) {
      return InvalidArgument("register ", id, " holds ", registers::Describe(*value),
                             ", not a module");
    }
    LOCKSTEP_ASSIGN_OR_RETURN(function,
                              static_cast<const module::Module&>(**object).GetFunction(name));
  }
  return session.Write(RegisterId::FromPacked(get.getResult()),
                       std::shared_ptr<registers::Object>(std::move(function)));
}

Status CommandRunner::LoadModule(SessionState& session, wire::Command::LoadModule::Reader load) {
  running_.Name("load module");
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::string file,
      module::FindModule(control::ToString(load.getPath()), options_.module_path));
  LOCKSTEP_RETURN_IF_ERROR(session.CountModule(file, options_.max_modules));
  reports_.BeginForwarding(session);  // constructors print, too
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<module::Module> loaded,
                            module::LoadModule(file, options_.module_path, options_.module_sha256));
  session.KeepModule(file, loaded);
  return session.Write(RegisterId::FromPacked(load.getResult()),
                       std::shared_ptr<registers::Object>(std::move(loaded)));
}

Status CommandRunner::Empty(SessionState& session, wire::Command::Empty::Reader empty) {
  running_.Name("empty");
  LOCKSTEP_ASSIGN_OR_RETURN(const DType dtype, control::FromWire(empty.getDtype()));
  LOCKSTEP_ASSIGN_OR_RETURN(const Shape shape, control::ReadShape(empty.getShape(), SizeOf(dtype)));
  LOCKSTEP_RETURN_IF_ERROR(
      session.registers().CheckRoom(static_cast<size_t>(shape.NumElements()) * SizeOf(dtype)));
  LOCKSTEP_ASSIGN_OR_RETURN(tensor::Tensor tensor,
                            tensor::Tensor::Empty(call_context_.Home().allocator(), dtype, shape));
  return session.Write(RegisterId::FromPacked(empty.getResult()), std::move(tensor));
}

Status CommandRunner::Collective(const std::shared_ptr<SessionState>& held,
                                 wire::Command::Collective::Reader collective) {
  SessionState& session = *held;
  const wire::CollectiveKind kind = collective.getKind();
  CollectiveOutcome outcome;
  // Also where this rank has no part in it: the tensor does not lie as it did.
  session.ForgetLayout(RegisterId::FromPacked(collective.getDestination()));
  const Status status =
      collectives_.Run(session, Name(kind), IsMessage(kind), [&](const CollectiveContext& context) {
        return ExecuteCollective(context, collective, &outcome);
      });
  if (outcome.connection != nullptr) {
    gpu_->NoteCollective(held, running_.number, collective, outcome,
                         membership_->collective_timeout);
  } else if (status.ok() && recorder_ != nullptr) {
    const CollectiveCost cost = recorder_->AddCollective(session.id(), session.generation(),
                                                         running_.number, kind, outcome.facts);
    activity_.AddCollective(cost.bus_bytes, cost.duration);
  }
  return status;
}

Status CommandRunner::Execute(const std::shared_ptr<SessionState>& held,
                              wire::Command::Execute::Reader execute) {
  SessionState& session = *held;
  // Held for the execution: nothing else would keep it while its outputs are written.
  const RegisterId id = RegisterId::FromPacked(execute.getBound());
  LOCKSTEP_ASSIGN_OR_RETURN(const std::shared_ptr<BoundPlan> plan, FindPlan(session, id));
  BeginCalls(session);
  LOCKSTEP_RETURN_IF_ERROR(plans_.Execute(
      held, *plan, execute.getStepByStep(), [&](BoundSteps::Call& call, registers::Value* result) {
        activity_.Name(call.name(), WorkerActivity::Kind::kCommand);
        return call.fragment != nullptr
                   ? RunFragmentOf(session, call)
                   : CallFunction(session, *call.function, call.arguments, result);
      }));
  if (!plan->TakeHasChangedSize()) [[likely]]
    return OkStatus();
  // What its register counts for.
  return session.Write(id, std::shared_ptr<registers::Object>(plan));
}

Status CommandRunner::RunFragment(SessionState& session, wire::Command::RunFragment::Reader run) {
  LOCKSTEP_RETURN_IF_ERROR(StillWanted(session));
  const Status status =
      fragments_.Run(session, run, call_context_,
                     [&](module::Function& function, absl::Span<const registers::Value> arguments,
                         registers::Value* result) {
                       BeginCalls(session);
                       return CallFunction(session, function, arguments, result);
                     });
  return NoteFragment(session, running_.function, status);
}

Status CommandRunner::RunFragmentOf(SessionState& session, BoundSteps::Call& call) {
  LOCKSTEP_RETURN_IF_ERROR(StillWanted(session));
  const Status status =
      fragments_.RunInPlan(session, *call.fragment, call.arguments, call_context_);
  return NoteFragment(session, call.name(), status);
}

Status CommandRunner::NoteFragment(SessionState& session, const std::string& name,
                                   const Status& status) {
  if (gpu_ == nullptr) return status;
  // Of one that computes elsewhere, arguments may have been copied from there, and results to it.
  GpuMemory memory = fragments_.TakeGpuMemory();
  const Status noted = gpu_->Note(session, {.command = running_.number,
                                            .what = name,
                                            .reads = std::move(memory.reads),
                                            .writes = std::move(memory.writes)});
  return status.ok() ? noted : status;
}

Status CommandRunner::Fetch(SessionState& session, wire::Command::Fetch::Reader fetch) {
  running_.Name("fetch");
  LOCKSTEP_RETURN_IF_ERROR(AwaitGpu(session));
  constexpr size_t kMaxValueBytes = size_t{64} << 20;
  LOCKSTEP_ASSIGN_OR_RETURN(const registers::Value* const value,
                            session.registers().Read(RegisterId::FromPacked(fetch.getRegister())));
  Status status;
  const control::Frame body =
      control::EncodeMessage<wire::Value>([&](wire::Value::Builder builder) {
        status = ToWire(*value, kMaxValueBytes, call_context_, builder);
      });
  LOCKSTEP_RETURN_IF_ERROR(status);
  LOCKSTEP_RETURN_IF_ERROR(StillWanted(session));
  Reply(body);
  return OkStatus();
}

Status CommandRunner::Store(SessionState& session, wire::Command::Store::Reader store) {
  running_.Name("store");
  LOCKSTEP_ASSIGN_OR_RETURN(registers::Value value,
                            FromWire(store.getValue(), session.registers(), call_context_));
  LOCKSTEP_RETURN_IF_ERROR(
      session.Write(RegisterId::FromPacked(store.getRegister()), std::move(value)));
  if (gpu_ != nullptr) {
    LOCKSTEP_RETURN_IF_ERROR(gpu_->Note(session, {.command = running_.number, .what = "store"}));
  }
  // Who has this answer takes all before it for done, and may copy without asking again.
  LOCKSTEP_RETURN_IF_ERROR(AwaitGpu(session));
  Reply(control::Frame());
  return OkStatus();
}

Status CommandRunner::Locate(SessionState& session, wire::Command::Locate::Reader locate) {
  running_.Name("locate");
  // Else the copy, which has less patience, would wait for what the session's functions do.
  LOCKSTEP_RETURN_IF_ERROR(AwaitGpu(session));
  const RegisterId id = RegisterId::FromPacked(locate.getRegister());
  LOCKSTEP_ASSIGN_OR_RETURN(const registers::Value* const value, session.registers().Read(id));
  const auto* tensor = value->As<tensor::Tensor>();
  if (tensor == nullptr) {
    return InvalidArgument("register ", id, " holds ", registers::Describe(*value),
                           "; only tensors can be copied");
  }
  LOCKSTEP_RETURN_IF_ERROR(RequireReachable(call_context_, *tensor, "the tensor to copy"));
  if (locate.getRenew()) session.WithdrawTicket(id);
  const uint64_t ticket = session.Publish(id, *tensor);
  bulk_.Synchronise();
  const bool is_shared = MayShare(session, arena_, *tensor);  // others copy by socket
  const wire::BytesWish wish = locate.getBytes();
  const bool brings_bytes =
      tensor->size_bytes() <= wire::MOST_ANSWER_BYTES &&
      (wish == wire::BytesWish::ALWAYS || (wish == wire::BytesWish::UNLESS_SHARED && !is_shared));
  Status status;
  const control::Frame body =
      control::EncodeMessage<wire::TensorLocation>([&](wire::TensorLocation::Builder location) {
        WriteLocation(location, arena_, *tensor, is_shared);
        location.setTicket(ticket);
        if (!brings_bytes) return;
        auto bytes = location.initBytes(static_cast<unsigned>(tensor->size_bytes()));
        status =
            call_context_.Of(tensor->device())->ToHost(bytes.begin(), tensor->data(), bytes.size());
      });
  LOCKSTEP_RETURN_IF_ERROR(status);
  if (brings_bytes) LOCKSTEP_RETURN_IF_ERROR(StillWanted(session));
  Reply(body);
  return OkStatus();
}

Status CommandRunner::Lend(SessionState& session, wire::Command::Lend::Reader lend) {
  running_.Name("lend");
  LOCKSTEP_RETURN_IF_ERROR(AwaitGpu(session));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const control::Frame answer,
      worker::Lend(session, lend, arena_, call_context_, running_, membership_->rank));
  Reply(answer);
  return OkStatus();
}

Status CommandRunner::FindLayout(SessionState& session, wire::Command::FindLayout::Reader find) {
  running_.Name("find layout");
  // Who has the answer takes all before it for done.
  LOCKSTEP_RETURN_IF_ERROR(AwaitGpu(session));
  Reply(worker::FindLayout(session, find, membership_->rank));
  return OkStatus();
}

void CommandRunner::Release(SessionState& session, const wire::Command::Release::Reader& release) {
  for (const uint64_t packed : release.getRegisters()) {
    const Status status = session.Release(RegisterId::FromPacked(packed));
    if (!status.ok()) log::Debug(log::OfSession(session.id().value), Message(status));
  }
}

}  // namespace lockstep::worker
