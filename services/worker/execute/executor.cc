#include "services/worker/execute/executor.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "runtime/base/device.h"
#include "runtime/base/log.h"
#include "runtime/control/batch.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/plain_call.h"
#include "runtime/control/session_record.h"
#include "runtime/control/value_codec.h"
#include "services/worker/execute/register_listing.h"

namespace lockstep::worker {
namespace {

// Of one session's registers.
registers::RegisterFile::Limits LimitsOf(const WorkerOptions& options) {
  registers::RegisterFile::Limits limits;
  limits.registers = static_cast<uint32_t>(options.max_registers);
  if (options.max_session_bytes > 0) {
    limits.bytes = options.max_session_bytes;
  } else if (options.device == kCpuDevice) {
    // One session may fill the arena; what a GPU has is known to its allocator.
    limits.bytes = options.arena_bytes;
    limits.bytes_setting = tensor::kArenaSetting;
  }
  return limits;
}

ObjectCacheOptions CacheOptionsOf(const WorkerOptions& options) {
  ObjectCacheOptions cache;
  cache.compiler.program = options.compiler;
  cache.compiler.memory_bytes = options.compiler_memory_bytes;
  cache.cuda_compiler.program = options.cuda_compiler;
  cache.cuda_compiler.memory_bytes = options.compiler_memory_bytes;
  if (!options.nvrtc_library.empty()) {
    cache.cuda_compiler.arguments = {"--nvrtc=" + options.nvrtc_library};
  }
  cache.directory = options.fragment_cache;
  cache.patience = options.compiler_timeout;
  return cache;
}

// Commands of any kind, and plain calls.
wire::Command::Which KindOf(const wire::Command::Reader& command) { return command.which(); }
wire::Command::Which KindOf(const control::PlainCall&) { return wire::Command::CALL; }
wire::Command::Reader AsCommand(const wire::Command::Reader& command) { return command; }
wire::Command::Reader AsCommand(const control::PlainCall& call) { return call.AsCommand(); }

}  // namespace

Executor::Executor(const WorkerOptions& options, const std::shared_ptr<tensor::Arena>& arena,
                   const module::FunctionTable& functions, BulkServer& bulk,
                   control::ActivityPage& activity, Recorder* recorder)
    : arena_(arena),
      bulk_(bulk),
      activity_(activity),
      recorder_(recorder),
      sessions_(LimitsOf(options), *arena, bulk),
      reports_(recorder),
      runner_({options, *arena, functions, bulk, reports_, activity, recorder, running_}),
      fragments_(
          CacheOptionsOf(options),
          [this](const SessionState& session, const std::string& name) {
            return runner_.FindFunction(session, name);
          },
          sessions_, reports_, recorder) {}

void Executor::UseGpu(const std::shared_ptr<collective::Accelerator>& gpu) {
  gpu_ = std::make_unique<GpuWorkTracker>(gpu, sessions_, reports_, activity_, recorder_, running_,
                                          [this] { AnswerRegisterQueries(); });
  runner_.UseGpu(*gpu, *gpu_);
  fragments_.UseGpu(gpu);
}

void Executor::AdoptWelcome(const Membership& membership, control::ClientChannel& controller) {
  membership_ = &membership;
  reports_.SetController(membership, controller);
  runner_.SetMembership(membership);
  fragments_.SetRank(membership.rank);
  if (gpu_ != nullptr) gpu_->GiveUp();
  sessions_.AdoptWelcome(membership);
  TellHoldings();
}

void Executor::ExecuteBatch(const BatchContext& batch, const control::Frame& body) {
  log::ThisThread().session = batch.session.value;
  const absl::Cleanup let_go = [this] { session_.reset(); };
  const absl::Cleanup no_session = [] { log::ThisThread().session.reset(); };
  fragments_.AnswerCompiled();
  BeginBatch(batch);
  control::BatchReader reader(body);
  while (!reader.AtEnd()) {
    AnswerRegisterQueries();
    if (recorder_ != nullptr) activity_.Launch(batch.session, running_.number);
    const Status status = reader.Next([this](const auto& command) { return Execute(command); });
    if (!status.ok() && session_ != nullptr) Fail(*session_, status);
    EndCommand();
  }
  EndBatch(body.size());
}

void Executor::BeginBatch(const BatchContext& batch) {
  session_ = sessions_.Find(batch.session);
  running_.batch = &batch;
  running_.number = batch.first_command;
  bulk_.Synchronise();
  bulk_.NoteCommands();
  if (gpu_ != nullptr) gpu_->BeginBatch(session_);
  if (recorder_ != nullptr) recorder_->BeginBatch(batch.times, batch.taken);
}

template <typename Command>
Status Executor::Execute(const Command& command) {
  if (session_ == nullptr) return ExecuteWithoutSession(AsCommand(command));
  SessionState& session = *session_;
  if (IsOfController()) return ExecuteForController(session, AsCommand(command));
  const wire::Command::Which kind = KindOf(command);
  if (kind == wire::Command::RELEASE || kind == wire::Command::END_LOAN) {
    return ExecuteRelease(session, AsCommand(command));
  }
  // Its client has gone on since.
  if (running_.batch->generation != session.generation()) return OkStatus();
  if (session.Skips(running_.number)) return Skip(session, AsCommand(command));
  return ExecuteForClient(session, command);
}

void Executor::EndCommand() {
  ++running_.number;
  running_.function.clear();
  const bool goes_on = gpu_ != nullptr && gpu_->TakeNoted();
  if (recorder_ == nullptr) return;
  if (goes_on) {
    activity_.Leave();
  } else {
    activity_.Complete();
  }
  recorder_->End();
}

void Executor::EndBatch(size_t body_bytes) {
  reports_.EndForwarding();
  TellHoldings();
  // A client's window counts what the client sent.
  if (session_ != nullptr && !IsOfController()) reports_.ReportConsumed(*session_, body_bytes);
}

Status Executor::ExecuteWithoutSession(const wire::Command::Reader& command) {
  // What does not open one came after its end.
  if (!IsOfController() || !command.isOpenSession()) return OkStatus();
  Record(command.which());
  sessions_.Open(control::ReadSessionRecord(command.getOpenSession()));
  session_ = sessions_.Find(running_.batch->session);
  return OkStatus();
}

Status Executor::ExecuteForController(SessionState& session, const wire::Command::Reader& command) {
  Record(command.which());
  switch (command.which()) {
    case wire::Command::RESET:
      running_.Name("reset of the session");
      fragments_.Forget(session);
      Reset(session, command.getReset());
      break;
    case wire::Command::CLOSE_SESSION:
      running_.Name("close of the session");
      fragments_.Forget(session);
      sessions_.Close(session, command.getCloseSession().getClientLost());
      break;
    case wire::Command::NAME_REGISTER:
      session.NameRegister(control::ToString(command.getNameRegister().getName()),
                           RegisterId::FromPacked(command.getNameRegister().getRegister()),
                           command.getNameRegister().getNamedBy());
      break;
    case wire::Command::LOAD_FRAGMENT:
      running_.Name("load fragment");
      fragments_.Load(session, *running_.batch, command.getLoadFragment());
      return OkStatus();
    case wire::Command::ADOPT:
      running_.Name("attaching of a client");
      fragments_.Forget(session);
      sessions_.Adopt(session, control::ReadSessionRecord(command.getAdopt()));
      break;
    default:
      return Internal("the controller sent command kind ", static_cast<int>(command.which()));
  }
  reports_.Reply(*running_.batch, control::RemoteError(), control::Frame());
  return OkStatus();
}

void Executor::Reset(SessionState& session, wire::Command::Reset::Reader reset) {
  const uint64_t failed_from = session.SkipsFrom(reset.getFailedFrom());
  if (gpu_ != nullptr) gpu_->CutOffCollectives(session, session.generation(), failed_from);
  session.Reset(Generation(reset.getGeneration()), failed_from);
}

Status Executor::ExecuteRelease(SessionState& session, const wire::Command::Reader& command) {
  Record(command.which());
  if (command.isRelease()) {
    runner_.Release(session, command.getRelease());
  } else if (command.getOnlyRank() < 0 || command.getOnlyRank() == membership_->rank) {
    session.EndLoan(RegisterId::FromPacked(command.getEndLoan()));
  }
  if (!session.Skips(running_.number)) session.next_command = running_.number + 1;
  return OkStatus();
}

Status Executor::Skip(SessionState& session, const wire::Command::Reader& command) {
  const bool asks = command.isSync() || command.isFetch() || command.isStore() ||
                    command.isLocate() || command.isLend() || command.isFindLayout();
  if (asks && (command.getOnlyRank() < 0 || command.getOnlyRank() == membership_->rank)) {
    reports_.Reply(*running_.batch, session.failure(), control::Frame());
  }
  return OkStatus();
}

template <typename Command>
Status Executor::ExecuteForClient(SessionState& session, const Command& command) {
  Record(KindOf(command));
  Status executed = runner_.Run(session_, command);
  if (executed.ok() && gpu_ != nullptr) executed = gpu_->MakeRoom(session, running_.number);
  if (executed.ok()) session.next_command = running_.number + 1;
  return executed;
}

void Executor::Fail(SessionState& session, const Status& status) {
  // An error of the GPU is not this command's alone: the tracker knows which ones may have caused
  // it.
  if (gpu_ != nullptr && gpu_->BlameLoss()) return;
  reports_.Fail(session, running_.number, running_.function, status);
}

void Executor::TellHoldings() {
  if (recorder_ == nullptr) return;
  const registers::RegisterTotals& totals = sessions_.totals();
  activity_.Hold(static_cast<uint64_t>(totals.live_registers.load(std::memory_order_relaxed)),
                 static_cast<uint64_t>(totals.tensor_bytes.load(std::memory_order_relaxed)));
  recorder_->SetRegisters(totals);
}

void Executor::ListRegistersForQuery() {
  register_queries_.Answer([this](const RegisterQueryQueue::Question& question) {
    return ListRegisters(sessions_.All(), question);
  });
}

}  // namespace lockstep::worker
