#include "services/worker/execute/executor.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "runtime/base/log.h"
#include "runtime/control/batch.h"
#include "runtime/control/host.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "services/worker/execute/collective_command.h"
#include "services/worker/execute/team.h"
#include "services/worker/values/value_transfer.h"

namespace lockstep::worker {
namespace {

control::RemoteError LocateError(const Status& status, Rank rank, SessionId session,
                                 uint64_t command, const std::string& function) {
  control::RemoteError error = control::ErrorOf(status);
  error.rank = rank;
  error.session = session;
  error.command = command;
  error.function = function;
  error.stack = Backtrace(status);
  return error;
}

// Most bytes of one session's registers.
size_t SessionBytes(const WorkerOptions& options) {
  if (options.max_session_bytes != 0) return options.max_session_bytes;
  // What a GPU has is known to its allocator.
  return options.device == kCpuDevice ? options.arena_bytes : SIZE_MAX;
}

}  // namespace

Executor::Executor(const WorkerOptions& options, const std::shared_ptr<tensor::Arena>& arena,
                   const module::FunctionTable& functions, BulkServer& bulk,
                   control::ActivityPage& activity, Recorder* recorder)
    : options_(options),
      arena_(arena),
      host_(tensor::NewHostProcessor(*arena)),
      functions_(functions),
      bulk_(bulk),
      activity_(activity),
      recorder_(recorder),
      registers_({static_cast<uint32_t>(options.max_registers), SessionBytes(options)}) {
  call_context_.host = host_.get();
  call_context_.aborted = [](void* session) {
    return static_cast<SessionState*>(session)->has_failed();
  };
}

Executor::~Executor() {
  if (gpu_ == nullptr) return;
  gpu_->processor().SetPatience({Deadline::After(std::chrono::seconds(0))});
  ForgetGpuWork();
}

void Executor::ExecuteBatch(const BatchContext& batch, const control::Frame& body) {
  std::shared_ptr<SessionState> session = FindSession(batch.session);
  // Clients count their commands from 1, which the controller sees to.
  const bool of_controller = batch.first_command == 0;
  running_.batch = &batch;
  log::ThisThread().session = batch.session.value;
  const absl::Cleanup no_session = [] { log::ThisThread().session.reset(); };
  running_.command = batch.first_command;
  bulk_.Synchronise();
  executing_for_ = session;
  LookAtGpu();
  if (recorder_ != nullptr) recorder_->BeginBatch(batch.times, batch.taken);
  control::BatchReader reader(body);
  while (!reader.AtEnd()) {
    AnswerRegisterQueries();
    if (recorder_ != nullptr) activity_.Launch(batch.session, running_.command);
    const Status status = reader.Next([&](wire::Command::Reader command) -> Status {
      if (session == nullptr) {
        // What does not open one came after its end.
        if (of_controller && command.isOpenSession()) {
          Record(command);
          OpenSession(control::ReadSessionRecord(command.getOpenSession()));
          session = FindSession(batch.session);
        }
        return OkStatus();
      }
      if (of_controller) {
        Record(command);
        return ExecuteForController(*session, command);
      }
      if (command.isRelease()) {
        Record(command);
        Release(*session, command.getRelease());
        if (!session->Skips(running_.command)) session->next_command = running_.command + 1;
        return OkStatus();
      }
      if (batch.generation != session->generation()) return OkStatus();
      if (!session->Skips(running_.command)) {
        Record(command);
        Status executed = ExecuteCommand(session, command);
        if (executed.ok()) executed = MakeRoomOnGpu(*session);
        if (executed.ok()) session->next_command = running_.command + 1;
        return executed;
      }
      const bool asks =
          command.isSync() || command.isFetch() || command.isStore() || command.isLocate();
      if (asks && (command.getOnlyRank() < 0 || command.getOnlyRank() == membership_->rank)) {
        Reply(session->failure(), control::Frame());
      }
      return OkStatus();
    });
    if (!status.ok() && session != nullptr) FailSession(*session, status);
    ++running_.command;
    running_.function.clear();
    const bool goes_on = std::exchange(is_on_gpu_, false);
    if (recorder_ == nullptr) continue;
    if (goes_on) {
      activity_.Leave();
    } else {
      activity_.Complete();
    }
    recorder_->End();
  }
  EndForwarding();
  TellHoldings();
  // A client's window counts what the client sent.
  if (session != nullptr && !of_controller) ReportConsumed(*session, body.size());
}

void Executor::Reset(SessionState& session, wire::Command::Reset::Reader reset) {
  const uint64_t failed_from = session.SkipsFrom(reset.getFailedFrom());
  Spoil(session, {session.generation(), failed_from, session.failed_at() - kAbortsApart});
  session.Reset(Generation(reset.getGeneration()), failed_from);
}

Status Executor::ExecuteForController(SessionState& session, wire::Command::Reader command) {
  switch (command.which()) {
    case wire::Command::RESET:
      Doing("reset of the session");
      Reset(session, command.getReset());
      break;
    case wire::Command::CLOSE_SESSION:
      Doing("close of the session");
      CloseSession(session, command.getCloseSession().getClientLost());
      break;
    case wire::Command::NAME_REGISTER:
      session.NameRegister(control::ToString(command.getNameRegister().getName()),
                           RegisterId::FromPacked(command.getNameRegister().getRegister()),
                           command.getNameRegister().getNamedBy());
      break;
    case wire::Command::ADOPT:
      Doing("attaching of a client");
      Adopt(session, control::ReadSessionRecord(command.getAdopt()));
      break;
    default:
      return Internal("the controller sent command kind ", static_cast<int>(command.which()));
  }
  Reply(control::RemoteError(), control::Frame());
  return OkStatus();
}

void Executor::Doing(const char* what) {
  running_.function = what;
  activity_.Name(what, WorkerActivity::Kind::kCommand);
}

Status Executor::ExecuteCommand(const std::shared_ptr<SessionState>& held,
                                wire::Command::Reader command) {
  SessionState& session = *held;
  const Rank only = command.getOnlyRank();
  // Refused by all: what they keep between collectives must not differ.
  if (only >= 0 && command.isCollective()) {
    return InvalidArgument("a collective for rank ", only,
                           " alone: every rank executes them; name a team instead");
  }
  if (only >= 0 && only != membership_->rank) return OkStatus();
  switch (command.which()) {
    case wire::Command::CALL:
      return Call(session, command.getCall());
    case wire::Command::SYNC:
      Doing("sync");
      LOCKSTEP_RETURN_IF_ERROR(AwaitGpu(session));
      Reply(control::RemoteError(), control::Frame());
      return OkStatus();
    case wire::Command::GET_FUNCTION:
      return GetFunction(session, command.getGetFunction());
    case wire::Command::LOAD_MODULE:
      return LoadModule(session, command.getLoadModule());
    case wire::Command::EMPTY:
      return Empty(session, command.getEmpty());
    case wire::Command::COLLECTIVE:
      return Collective(held, command.getCollective());
    case wire::Command::FETCH:
      return Fetch(session, command.getFetch());
    case wire::Command::STORE:
      return Store(session, command.getStore());
    case wire::Command::LOCATE:
      return Locate(session, command.getLocate());
    case wire::Command::OPEN_SESSION:
    case wire::Command::CLOSE_SESSION:
    case wire::Command::RESET:
    case wire::Command::NAME_REGISTER:
    case wire::Command::ADOPT:
      return PermissionDenied("sessions are opened, closed and reset by the controller alone");
    default:
      return Unimplemented("unknown command kind ", static_cast<int>(command.which()),
                           "; this worker is Lockstep ", control::kBuildVersion);
  }
}

Status Executor::Call(SessionState& session, wire::Command::Call::Reader call) {
  const RegisterId id = RegisterId::FromPacked(call.getFunction());
  StatusOr<const registers::Value*> value = session.registers().Read(id);
  if (!value.ok()) return Annotate(value.status(), "the function");
  const auto* object = (*value)->As<std::shared_ptr<registers::Object>>();
  if (object == nullptr || (*object)->kind() != registers::Object::Kind::kFunction) {
    return InvalidArgument("register ", id, " holds ", registers::Describe(**value),
                           ", which cannot be called");
  }
  // Held for the call: the function may free the register it came from.
  const std::shared_ptr<registers::Object> held = *object;
  auto& function = static_cast<module::Function&>(*held);

  // However the call ends: what stays here would outlive its registers, and its session.
  const absl::Cleanup forget_arguments = [this] { arguments_.clear(); };
  for (auto argument : call.getArgs()) {
    StatusOr<registers::Value> read = FromWire(argument, session.registers(), call_context_);
    if (!read.ok()) {
      running_.function = function.name();
      return Annotate(read.status(), "argument " + std::to_string(arguments_.size() + 1));
    }
    arguments_.push_back(std::move(*read));
  }
  call_context_.num_groups = session.num_groups();
  call_context_.aborted_state = &session;
  registers::Value result;
  if (recorder_ != nullptr) {
    activity_.Name(function.name(), WorkerActivity::Kind::kCommand);
    recorder_->spans().Name(function.name(), trace::Kind::kCommand);
  }
  BeginForwarding(session);
  const bool may_use_gpu = gpu_ != nullptr && function.UsesGpuByItself();
  Status status = StillWanted(session);
  if (status.ok() && may_use_gpu) status = gpu_->BeforeCall(arguments_);
  if (status.ok()) status = function.Call(call_context_, arguments_, &result);
  // Functions of modules may have made another GPU this thread's.
  if (may_use_gpu) status.Update(gpu_->gpu().Bind());
  // Also after an error: what it has begun goes on.
  const Status noted = NoteGpuWork(session, function.name(), may_use_gpu, &function, &result);
  if (status.ok()) status = noted;
  if (status.ok() && call.getResult() != 0) {
    status = session.registers().Write(RegisterId::FromPacked(call.getResult()), std::move(result));
  }
  if (!status.ok()) running_.function = function.name();
  return status;
}

Status Executor::Collective(const std::shared_ptr<SessionState>& held,
                            wire::Command::Collective::Reader collective) {
  SessionState& session = *held;
  // Sessions are failed until the ranks are connected again, so this is no command of theirs.
  if (world_.cpus == nullptr) return Internal("a collective before the ranks are connected");
  const CollectiveContext context{membership_->rank,
                                  membership_->world_size(),
                                  world_,
                                  call_context_,
                                  session,
                                  activity_,
                                  Deadline::After(membership_->collective_timeout)};
  if (!session.BeginCollective(running_.command)) return OkStatus();
  // Looked at after it has begun: whoever breaks the world later ends it.
  if (world_broken_) {
    session.EndCollective();
    running_.function = Name(collective.getKind());
    return Unavailable("a worker of the cluster is lost");
  }
  activity_.Name(Name(collective.getKind()), WorkerActivity::Kind::kCollective);
  if (recorder_ != nullptr) {
    recorder_->spans().Name(Name(collective.getKind()), trace::Kind::kCollective);
  }
  CollectiveOutcome outcome;
  Status status = ExecuteCollective(context, collective, &outcome);
  const CollectiveFacts& facts = outcome.facts;
  session.EndCollective();
  if (outcome.connection != nullptr) {
    NoteGpuCollective(held, collective, outcome);
  } else if (status.ok() && recorder_ != nullptr) {
    const CollectiveCost cost = recorder_->AddCollective(
        session.id(), session.generation(), running_.command, collective.getKind(), facts);
    activity_.AddCollective(cost.bus_bytes, cost.duration);
  }
  if (!status.ok()) running_.function = Name(collective.getKind());
  return status;
}

void Executor::Release(SessionState& session, wire::Command::Release::Reader release) {
  for (const uint64_t packed : release.getRegisters()) {
    WithdrawTicket(session, packed);
    const Status status = session.registers().Kill(RegisterId::FromPacked(packed));
    if (!status.ok()) log::Debug(log::OfSession(session.id().value), Message(status));
  }
}

void Executor::WithdrawTicket(SessionState& session, uint64_t packed) {
  if (session.tickets().empty()) return;
  const auto ticket = session.tickets().find(packed);
  if (ticket == session.tickets().end()) return;
  bulk_.Withdraw(ticket->second);
  session.tickets().erase(ticket);
}

void Executor::FailSession(SessionState& session, const Status& status) {
  // An error of the GPU is not this command's alone: who may have caused it is known elsewhere.
  if (gpu_ != nullptr && gpu_loss_.ok() && !gpu_->gpu().Loss().ok()) {
    gpu_loss_ = Annotate(gpu_->gpu().Loss(), "the GPU is lost to this process");
    if (IsGpuBusy()) return FailOnGpu(gpu_->gpu().Loss());
  }
  // Work that was given up because of a failure is no failure of its own.
  if (status.code() == StatusCode::kAborted && session.has_failed()) return;
  control::RemoteError error =
      LocateError(status, membership_->rank, session.id(), running_.command, running_.function);
  if (status.code() == StatusCode::kNotFound && session.first_command() > 1) {
    error.message += "; this rank has had another worker since command " +
                     std::to_string(session.first_command()) +
                     ": what registers were given before is lost here";
  }
  // What comes from elsewhere is known there: only the first cause is reported.
  if (!session.Fail(error)) return;
  if (recorder_ != nullptr) recorder_->AddError(session.id(), running_.command, status.code());
  log::Warn(log::OfSession(session.id().value), "session failed: ", Message(error.ToStatus()));
  Send({control::EncodeMessage<wire::WorkerMessage>([&](wire::WorkerMessage::Builder message) {
    auto failure = message.initFailure();
    failure.setGeneration(session.generation().value);
    control::WriteError(failure.initError(), error);
  })});
}

void Executor::Reply(const control::RemoteError& error, const control::Frame& body) {
  if (running_.batch->request == RequestId()) return;
  control::Message message = {
      control::EncodeMessage<wire::WorkerMessage>([&](wire::WorkerMessage::Builder builder) {
        auto reply = builder.initReply();
        reply.setSession(running_.batch->session.value);
        reply.setGeneration(running_.batch->generation.value);
        reply.setRequest(running_.batch->request.value);
        if (!error.ok()) control::WriteError(reply.initError(), error);
      })};
  if (body.size() > 0) message.push_back(body);
  Send(message);
}

void Executor::ReportConsumed(SessionState& session, size_t body_bytes) {
  session.consumed_bytes += control::FlowCost(body_bytes);
  if (session.consumed_bytes - session.reported_bytes < membership_->flow_window_bytes / 8) return;
  session.reported_bytes = session.consumed_bytes;
  Send({control::EncodeMessage<wire::WorkerMessage>([&](wire::WorkerMessage::Builder message) {
    auto consumed = message.initConsumed();
    consumed.setSession(session.id().value);
    consumed.setBytes(session.consumed_bytes);
  })});
}

void Executor::Send(const control::Message& message) {
  EndForwarding();
  const Status status = controller_->Send(message);
  if (!status.ok()) log::Error("the controller cannot be told: ", Message(status));
}

}  // namespace lockstep::worker
