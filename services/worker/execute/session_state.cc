#include "services/worker/execute/session_state.h"

#include <algorithm>
#include <utility>

#include "runtime/base/host_identity.h"
#include "runtime/base/log.h"

namespace lockstep::worker {
namespace {

// Never the same for two sessions, for two generations of one, or for two communicators of one
// generation: those that share a tag are 2^24 sessions, 2^16 resets or 2^24 communicators apart.
uint64_t TagOf(SessionId session, uint32_t generation, uint32_t serial) {
  constexpr int kSerialBits = 24;
  constexpr int kGenerationBits = 16;
  const uint64_t in_session = uint64_t{generation & ((1u << kGenerationBits) - 1)} << kSerialBits |
                              (serial & ((1u << kSerialBits) - 1));
  return uint64_t{session.value} << (kGenerationBits + kSerialBits) | in_session;
}

}  // namespace

SessionState::SessionState(const control::SessionRecord& record, registers::RegisterFile* registers,
                           BulkServer* bulk)
    : next_command(record.next_command),
      consumed_bytes(record.consumed_bytes),
      reported_bytes(record.consumed_bytes),
      record_(record),
      registers_(registers),
      bulk_(bulk),
      generation_(record.generation.value) {
  if (!record.failure.ok()) FailFrom(0, record.failure);
}

void SessionState::LeaveWorld(const control::SessionRecord& record) {
  if (record.generation != generation()) Reset(record.generation);
  // Equal under the same controller: all that was sent before has been consumed. Another one counts
  // from where it likes.
  if (consumed_bytes != record.consumed_bytes) {
    consumed_bytes = reported_bytes = record.consumed_bytes;
  }
  CommunicatorCache old;
  GivenUp kept;
  std::lock_guard lock(mutex_);
  if (!record.failure.ok()) FailFrom(0, record.failure);
  std::swap(communicators_, old);
  kept = GiveUpKept("a worker of the cluster, or its controller, was replaced since it was bound");
}

control::SessionRecord SessionState::Record() const {
  control::SessionRecord record = record_;
  record.register_generations = std::max(record.register_generations, registers_->generations());
  record.generation = generation();
  record.next_command = next_command;
  record.first_command = first_command();
  return record;
}

void SessionState::NameRegister(const std::string& name, RegisterId id, uint64_t named_by) {
  if (id.IsNone()) {
    record_.names.erase(name);
  } else {
    record_.names[name] = {id, named_by};
  }
}

Status SessionState::CountModule(const std::string& file, size_t most) {
  if (modules_.contains(file)) return OkStatus();
  if (modules_.size() >= most) {
    return ResourceExhausted("the module ", file, " is not loaded: session ", id(), " has loaded ",
                             modules_.size(), " already, and may load ", most, " (max_modules)");
  }
  modules_[file] = nullptr;
  return OkStatus();
}

Status SessionState::NoteBound(const plan::EncodedProgram& program) {
  programs_.NoteBound(program);
  return CountKeptBytes();
}

Status SessionState::FinishFragment(const fragment::ObjectKey& key,
                                    std::shared_ptr<const LoadedObject> object) {
  if (object != nullptr) {
    const Status room = registers_->CheckRoom(object->size_bytes());
    if (!room.ok()) {
      fragments_.Finish(key, nullptr);
      return room;
    }
  }
  fragments_.Finish(key, std::move(object));
  return CountKeptBytes();
}

StatusOr<SessionFragments::Call*> SessionState::AddFragmentCall(uint32_t number,
                                                                SessionFragments::Call call,
                                                                size_t bytes) {
  LOCKSTEP_ASSIGN_OR_RETURN(SessionFragments::Call* const added,
                            fragments_.AddCall(number, std::move(call), bytes));
  LOCKSTEP_RETURN_IF_ERROR(CountKeptBytes());
  return added;
}

Status SessionState::CountKeptBytes() {
  return registers_->KeepBeside(programs_.bytes() + fragments_.bytes() + loans_.bytes_apart());
}

void SessionState::RecordKeptBytes() {
  registers_->RecordBeside(programs_.bytes() + fragments_.bytes() + loans_.bytes_apart());
}

void SessionState::ForgetPrograms() {
  programs_.Clear();
  fragments_.Clear();
  RecordKeptBytes();
}

void SessionState::Adopt(const control::SessionRecord& record) {
  record_.TakeClientOf(record);
  record_.names = record.names;
  ForgetPrograms();
  looked_for_client_ = false;
  client_process_.reset();
  std::vector<RegisterId> kept;
  for (const auto& [name, named] : record.names) kept.push_back(named.id);
  registers_->KillAllBut(kept);
  input_holders_.LetGoOfAll();
}

Status SessionState::WriteBesideLoans(RegisterId id, registers::Value&& value,
                                      registers::LayoutPtr layout) {
  EndEarlierLoan(id);
  // What is lent is kept beside what takes its place.
  if (loans_.HoldsValueOf(id.index)) {
    LOCKSTEP_RETURN_IF_ERROR(registers_->CheckRoom(registers::HeldBytes(value)));
  }
  LOCKSTEP_RETURN_IF_ERROR(registers_->Write(id, std::move(value), std::move(layout)));
  OutliveLoans(id);
  return OkStatus();
}

Status SessionState::Release(RegisterId id) {
  if (!loans_.IsEmpty()) [[unlikely]] {
    EndLoan(id);
    EndEarlierLoan(id);
  }
  return Kill(id);
}

uint64_t SessionState::Publish(RegisterId id, const tensor::Tensor& tensor) {
  const auto [found, is_new] = tickets_.try_emplace(id.Packed(), 0);
  if (is_new) found->second = bulk_->Publish(tensor);
  return found->second;
}

void SessionState::WithdrawTicket(RegisterId id) {
  const auto ticket = tickets_.find(id.Packed());
  if (ticket == tickets_.end()) return;
  bulk_->Withdraw(ticket->second);
  tickets_.erase(ticket);
}

std::vector<registers::Value> SessionState::WithdrawTickets() {
  std::vector<registers::Value> located;
  for (const auto& [packed, ticket] : tickets_) {
    bulk_->Withdraw(ticket);
    const auto value = registers_->Read(RegisterId::FromPacked(packed));
    if (value.ok()) located.push_back(**value);
  }
  tickets_.clear();
  return located;
}

Deadline::Clock::time_point SessionState::failed_at() const {
  std::lock_guard lock(mutex_);
  return has_failed() ? failed_at_ : Deadline::Clock::now();
}

control::RemoteError SessionState::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

bool SessionState::FailFrom(uint64_t command, const control::RemoteError& cause) {
  if (command >= fail_from_.load(std::memory_order_relaxed)) return false;
  if (failure_.ok()) failure_ = cause;  // the first cause wins
  if (!has_failed()) failed_at_ = Deadline::Clock::now();
  fail_from_.store(command, std::memory_order_seq_cst);  // see BeginPolling()
  failed_.notify_all();
  return true;
}

bool SessionState::Fail(const control::RemoteError& cause) {
  std::lock_guard lock(mutex_);
  const bool is_first = FailFrom(cause.command, cause);
  // It may have been a collective, some of which is there.
  AbortOnGpu();
  return is_first;
}

void SessionState::AwaitFailure(uint64_t command, std::chrono::milliseconds longest) {
  std::unique_lock lock(mutex_);
  (void)failed_.wait_for(lock, longest, [&] { return Skips(command); });
}

void SessionState::Abort(const AbortOrder& abort) {
  std::lock_guard lock(mutex_);
  const uint32_t current = generation_.load(std::memory_order_relaxed);
  if (abort.generation.value > current) {
    // The first cause stays, but a worker that was behind may have failed at an earlier command.
    AbortOrder& early = early_aborts_.try_emplace(abort.generation, abort).first->second;
    early.from_command = std::min(early.from_command, abort.from_command);
  }
  if (abort.generation.value != current) return;
  FailFrom(abort.from_command, abort.cause);
  AbortOnGpu();
  const uint64_t polling = polling_.load(std::memory_order_seq_cst);
  if (polling != 0 && Skips(polling)) must_end_.store(1, std::memory_order_relaxed);
  if (collective_ == 0 || !Skips(collective_)) return;
  cancelled_.store(true, std::memory_order_release);
  AbortHosts();
}

void SessionState::ForgetEarlyAborts() {
  std::lock_guard lock(mutex_);
  early_aborts_.clear();
}

bool SessionState::BeginCollective(uint64_t command) {
  std::lock_guard lock(mutex_);
  if (Skips(command)) return false;
  collective_ = command;
  return true;
}

void SessionState::EndCollective() {
  std::lock_guard lock(mutex_);
  collective_ = 0;
}

const volatile int32_t* SessionState::BeginPolling(uint64_t command) {
  // Code in C reads it as the number that it is.
  static_assert(sizeof(must_end_) == sizeof(int32_t) && decltype(must_end_)::is_always_lock_free);
  // An abort writes where the session fails, and then looks who polls; this says who polls, and
  // then looks where the session fails. So one of them sees the other. An abort that has seen an
  // earlier command, and is late, ends this one, which comes after that: it is skipped, too.
  must_end_.store(0, std::memory_order_relaxed);
  polling_.store(command, std::memory_order_seq_cst);
  if (command >= fail_from_.load(std::memory_order_seq_cst)) {
    EndPolling();
    return nullptr;
  }
  return reinterpret_cast<const volatile int32_t*>(&must_end_);
}

void SessionState::EndPolling() { polling_.store(0, std::memory_order_release); }

void SessionState::BeginOnGpu(CollectiveOnGpu collective) {
  std::lock_guard lock(mutex_);
  on_gpu_.Begin(std::move(collective));
  // An abort that came meanwhile has not seen it there.
  AbortOnGpu();
}

bool SessionState::EndOnGpu() {
  // May be the last that holds its connection, which goes when nothing is locked any more.
  CollectiveOnGpu ended;
  std::lock_guard lock(mutex_);
  return on_gpu_.End(&ended);
}

void SessionState::GiveUpOnGpu(Generation generation, uint64_t from_command) {
  std::lock_guard lock(mutex_);
  on_gpu_.GiveUp(generation, from_command);
  AbortOnGpu();
}

void SessionState::GiveUpAllOnGpu() {
  std::lock_guard lock(mutex_);
  on_gpu_.GiveUpAll();
  AbortOnGpu();
}

void SessionState::Reset(Generation generation, uint64_t failed_from) {
  ForgetPrograms();
  // Gone when nothing is locked any more.
  CommunicatorCache old;
  GivenUp kept;
  std::lock_guard lock(mutex_);
  // Also where the abort was not heard: it comes another way than this.
  on_gpu_.GiveUp(this->generation(), failed_from);
  AbortOnGpu();
  generation_.store(generation.value, std::memory_order_release);
  failure_ = control::RemoteError();
  fail_from_.store(kNever, std::memory_order_release);
  cancelled_.store(false, std::memory_order_release);
  std::swap(communicators_, old);
  kept = GiveUpKept("the session was reset since it was bound");
  const auto early = early_aborts_.find(generation);
  if (early != early_aborts_.end()) FailFrom(early->second.from_command, early->second.cause);
  early_aborts_.erase(early_aborts_.begin(), early_aborts_.upper_bound(generation));
}

StatusOr<const Communicators*> SessionState::CommunicatorsOf(const TeamName& name,
                                                             const std::vector<Rank>& members,
                                                             const WorldLinks& world,
                                                             Deadline deadline) {
  CommunicatorCache::Entry* entry = nullptr;
  CommunicatorCache::Evicted evicted;
  {
    std::lock_guard lock(mutex_);
    entry = &communicators_.Use(name, &evicted);
    if (entry->communicators.cpus != nullptr || members.empty()) return &entry->communicators;
  }
  // Before another one is made: it needs the room.
  evicted.clear();
  const uint64_t tag = TagOf(id(), generation_.load(std::memory_order_relaxed), entry->serial);
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<collective::Communicator> cpus,
                            world.cpus->Split(members, tag, deadline, &cancelled_));
  std::unique_ptr<collective::DeviceCommunicator> gpus;
  if (world.gpus != nullptr) gpus = world.gpus->Over(cpus);
  std::lock_guard lock(mutex_);
  entry->communicators = {std::move(cpus), std::move(gpus)};
  // An abort that came meanwhile has not seen them.
  if (cancelled_.load(std::memory_order_relaxed)) AbortHosts();
  return &entry->communicators;
}

void SessionState::Keep(const std::shared_ptr<KeptCommunicators>& kept) {
  std::lock_guard lock(mutex_);
  std::erase_if(kept_, [](const auto& other) { return other.expired(); });
  kept_.push_back(kept);
}

std::optional<Communicators> SessionState::FindKept(const std::vector<Rank>& team) const {
  for (const std::weak_ptr<KeptCommunicators>& weak : kept_) {
    const std::shared_ptr<KeptCommunicators> kept = weak.lock();
    if (kept == nullptr) continue;
    const auto found = kept->all.find(team);
    if (found != kept->all.end()) return found->second;
  }
  return std::nullopt;
}

size_t SessionState::CountKept() const {
  std::set<std::vector<Rank>> teams;
  for (const std::weak_ptr<KeptCommunicators>& weak : kept_) {
    const std::shared_ptr<KeptCommunicators> kept = weak.lock();
    if (kept == nullptr) continue;
    for (const auto& [team, communicators] : kept->all) {
      if (communicators.cpus != nullptr) teams.insert(team);
    }
  }
  return teams.size();
}

SessionState::GivenUp SessionState::GiveUpKept(const std::string& why) {
  GivenUp given_up;
  for (const std::weak_ptr<KeptCommunicators>& weak : kept_) {
    const std::shared_ptr<KeptCommunicators> kept = weak.lock();
    if (kept == nullptr) continue;
    for (auto& [team, communicators] : kept->all) {
      given_up.communicators.push_back(std::move(communicators));
    }
    if (kept->graphs != nullptr) given_up.graphs.push_back(std::move(kept->graphs));
    kept->all.clear();
    kept->invalid_because = why;
  }
  kept_.clear();
  return given_up;
}

void SessionState::AbortHosts() {
  const Status status = failure_.ToStatus();
  const auto abort = [&](const Communicators& made) {
    if (made.gpus != nullptr) {
      made.gpus->AbortHost(status);
    } else if (made.cpus != nullptr) {
      made.cpus->Abort(status);
    }
  };
  for (const std::weak_ptr<KeptCommunicators>& weak : kept_) {
    const std::shared_ptr<KeptCommunicators> kept = weak.lock();
    if (kept == nullptr) continue;
    for (const auto& [team, communicators] : kept->all) abort(communicators);
  }
  communicators_.ForEach(abort);
}

void SessionState::AbortOnGpu() {
  on_gpu_.GiveUp(generation(), SkipsFrom(kNever));
  if (!on_gpu_.IsAnyGivenUp()) return;
  on_gpu_.AbortGivenUp(failure_.ok() ? Aborted("the session goes on without it")
                                     : failure_.ToStatus());
}

WatchedProcess* SessionState::client_process() {
  if (!looked_for_client_) {
    looked_for_client_ = true;
    if (record_.host_id == ThisHost().id) {
      StatusOr<WatchedProcess> process = WatchedProcess::Watch(record_.pid);
      Status status = process.status();
      // Should it be lost, what it maps has to be known.
      if (status.ok()) status = process->Maps("").status();
      if (status.ok()) {
        client_process_ = *std::move(process);
      } else {
        log::Warn(log::OfSession(id().value),
                  "session copies by socket: its client cannot be watched: ", Message(status));
      }
    }
  }
  return client_process_.has_value() ? &*client_process_ : nullptr;
}

}  // namespace lockstep::worker
