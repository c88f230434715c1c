// What one worker keeps for one session.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"
#include "runtime/collective/communicator.h"
#include "runtime/collective/device_communicator.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/session_record.h"
#include "runtime/module/module.h"
#include "runtime/plan/known_programs.h"
#include "runtime/registers/register_file.h"
#include "runtime/registers/value.h"
#include "runtime/tensor/tensor.h"
#include "services/worker/bulk/bulk_server.h"
#include "services/worker/execute/collectives_on_gpu.h"
#include "services/worker/execute/communicator_cache.h"
#include "services/worker/execute/input_holders.h"
#include "services/worker/execute/memory_loans.h"
#include "services/worker/fragment/session_fragments.h"
#include "services/worker/join/envelope.h"

namespace lockstep::worker {

// What connects all ranks.
struct WorldLinks {
  collective::Communicator* cpus = nullptr;  // null: they are not connected
  collective::DeviceWorld* gpus = nullptr;   // null: no rank has a GPU
  std::vector<int> nodes = {};               // of each rank: ranks of one node share memory
};

class PlanGraphs;

// The communicators that a bound plan keeps while it can be executed.
//
// Threads: an abort may use them from any thread, under the session's lock.
struct KeptCommunicators {
  // By their teams; without any where this rank is not of the team. All ranks have the same teams.
  std::map<std::vector<Rank>, Communicators> all;
  // What was captured of what they do; it goes before them. Null: nothing. Of the executing thread.
  std::shared_ptr<PlanGraphs> graphs;
  // Why the plan cannot be executed any more; empty: it can. Of the executing thread.
  std::string invalid_because;
};

// A session is usable, or it has failed at one of its commands: then that and all later ones are
// skipped until it is reset. It fails by an error here, or by an abort that says what happened on
// another rank. A rank that is behind still executes what comes before the failing command: its
// peers have done so, and none of them is missing in a collective there.
//
// Threads: the executing thread owns it; Abort() and the failure are safe from any thread.
class SessionState {
 public:
  // `registers` are borrowed, and so is `bulk`, where tensors are published that the client
  // locates; null: none are.
  SessionState(const control::SessionRecord& record, registers::RegisterFile* registers,
               BulkServer* bulk = nullptr);

  SessionId id() const { return record_.id; }
  int num_groups() const { return record_.num_groups; }
  // Its client wants to see what its functions print.
  bool forward_output() const { return record_.forward_output; }
  uint32_t client_number() const { return record_.client_number; }
  // The first command that this worker has seen: later than 1 if it took the place of another.
  uint64_t first_command() const { return record_.next_command; }
  const registers::RegisterFile& registers() const { return *registers_; }
  Generation generation() const { return Generation(generation_.load(std::memory_order_acquire)); }

  bool has_failed() const { return fail_from_.load(std::memory_order_acquire) != kNever; }
  // True if the command of this number is not to be executed.
  bool Skips(uint64_t command) const {
    return command >= fail_from_.load(std::memory_order_acquire);
  }
  // The first command that is skipped, at most `otherwise`.
  uint64_t SkipsFrom(uint64_t otherwise) const {
    return std::min(otherwise, fail_from_.load(std::memory_order_acquire));
  }
  // When this rank knew; now, if it has not failed.
  Deadline::Clock::time_point failed_at() const;
  // The cause; only when it has failed.
  control::RemoteError failure() const;
  // The command `cause.command` has failed here. True if no earlier one is known to have failed.
  bool Fail(const control::RemoteError& cause);
  // Returns when the command of this number is not to be executed any more, because of a failure
  // that is known elsewhere, or that much later.
  void AwaitFailure(uint64_t command, std::chrono::milliseconds longest);

  // Fails the session from a command on, and wakes this rank if it is in a collective of that
  // number or a later one. Ignored for an older generation. One for a later generation has
  // overtaken the reset, which travels on another socket: it waits for it.
  void Abort(const AbortOrder& abort);

  // Aborts of later generations are forgotten: another controller decides what begins those.
  void ForgetEarlyAborts();

  // Around the execution of a collective, which an abort is to end. Begin: false if the session
  // skips it by now.
  bool BeginCollective(uint64_t command);
  void EndCollective();
  // Around code that polls what this returns, and ends once it is not 0, because an abort has come
  // for its command. Null: the session skips it by now. Neither takes a lock: such code may be
  // called a million times a second.
  const volatile int32_t* BeginPolling(uint64_t command);
  void EndPolling();
  // A collective goes on on the GPU. An abort ends it there, if it ends its command, once the GPU
  // is through with those before.
  void BeginOnGpu(CollectiveOnGpu collective);
  // The oldest one is over. False: it was cut off.
  bool EndOnGpu();
  // Those of that generation from a command on are to end, also if the session has gone on since.
  void GiveUpOnGpu(Generation generation, uint64_t from_command);
  // Those of all generations: the ranks are not connected any more.
  void GiveUpAllOnGpu();

  // Usable again; the old communicators are dropped, and programs forgotten. Of the old generation,
  // what is on the GPU is given up from `failed_from` on.
  void Reset(Generation generation, uint64_t failed_from = 0);

  // The world that all communicators are made of is given up. `record` says how the session goes on
  // in the next one.
  void LeaveWorld(const control::SessionRecord& record);

  // What another controller must know of the session.
  control::SessionRecord Record() const;

  const std::map<std::string, control::NamedRegister>& names() const { return record_.names; }

  // Names a register, which that command gave its first value; a register id that names nothing
  // takes the name back.
  void NameRegister(const std::string& name, RegisterId id, uint64_t named_by);
  // The session loads the module in `file`. kResourceExhausted: it is one too many. Modules stay
  // loaded, so one that is loaded again counts once.
  Status CountModule(const std::string& file, size_t most);
  // It is loaded now.
  void KeepModule(const std::string& file, std::shared_ptr<module::Module> module) {
    modules_[file] = std::move(module);
  }
  // By their files; null: it could not be loaded.
  const std::map<std::string, std::shared_ptr<module::Module>>& modules() const { return modules_; }
  // Programs that its client may name by their keys.
  const plan::KnownPrograms& programs() const { return programs_; }
  // Those that were granted to it in this generation.
  SessionFragments& fragments() { return fragments_; }
  // A fragment of it was compiled, or (null) could not be. kResourceExhausted: what is kept is
  // beyond the session's limit, and it counts as not compiled.
  Status FinishFragment(const fragment::ObjectKey& key, std::shared_ptr<const LoadedObject> object);
  // See SessionFragments; kResourceExhausted likewise.
  StatusOr<SessionFragments::Call*> AddFragmentCall(uint32_t number, SessionFragments::Call call,
                                                    size_t bytes);
  // The program is bound now. kResourceExhausted: what is kept is beyond the session's limit.
  Status NoteBound(const plan::EncodedProgram& program);
  // Another client has the session now. Its registers without names are freed.
  void Adopt(const control::SessionRecord& record);
  // The same client shows another key.
  void SetOwner(const std::optional<control::Identity>& owner) { record_.owner = owner; }

  // This session's communicators of the team `name`, whose members are, for this rank, `members`
  // (world ranks, this one included); made from `world` when it is new. Null if `members` is empty:
  // this rank has no part in it, but all ranks ask in the same command (see CommunicatorCache).
  // Valid until the next call.
  StatusOr<const Communicators*> CommunicatorsOf(const TeamName& name,
                                                 const std::vector<Rank>& members,
                                                 const WorldLinks& world, Deadline deadline);

  // A plan keeps these, beside the session's own: an abort ends waits in them, too, and they are
  // given up with those of the generation and the world. Borrowed for as long as they live.
  void Keep(const std::shared_ptr<KeptCommunicators>& kept);
  // That of a plan which is kept already; nothing if there is none. The same on all ranks, which
  // make and free plans in one order.
  std::optional<Communicators> FindKept(const std::vector<Rank>& team) const;
  // How many different teams that this rank is in plans keep.
  size_t CountKept() const;

  // The client's process, if it is one of this host that can be watched; else null. Only to such a
  // process memory may be lent. Looked for once.
  WatchedProcess* client_process();
  std::optional<WatchedProcess> TakeClientProcess() { return std::move(client_process_); }

  // A register's value goes, or is replaced: the client cannot reach the old one any more once they
  // return. The errors of RegisterFile.
  Status Write(RegisterId id, registers::Value&& value, registers::LayoutPtr layout = nullptr) {
    LetGo(id);
    if (!loans_.IsEmpty()) [[unlikely]]
      return WriteBesideLoans(id, std::move(value), std::move(layout));
    return registers_->Write(id, std::move(value), std::move(layout));
  }
  Status Kill(RegisterId id) {
    LetGo(id);
    LOCKSTEP_RETURN_IF_ERROR(registers_->Kill(id));
    if (!loans_.IsEmpty()) [[unlikely]]
      OutliveLoans(id);
    return OkStatus();
  }
  // The client has dropped the name: it does not write to what was lent under it any more either.
  Status Release(RegisterId id);

  // See RegisterFile. A plan whose input it is looks at it anew.
  Status SetLayout(RegisterId id, registers::LayoutPtr layout) {
    if (!input_holders_.IsEmpty()) [[unlikely]]
      input_holders_.LetGo(id.index);
    return registers_->SetLayout(id, std::move(layout));
  }
  // Something may write into the register's tensor where it lies.
  void ForgetLayout(RegisterId id) { (void)registers_->SetLayout(id, nullptr); }

  // A plan holds the tensor of that register as its input.
  void AddInputHolder(uint32_t register_index, std::weak_ptr<InputHolder> holder) {
    input_holders_.Add(register_index, std::move(holder));
  }

  // The bulk ticket of the register, which holds `tensor`: it has one from now on.
  uint64_t Publish(RegisterId id, const tensor::Tensor& tensor);
  // It has none any more.
  void WithdrawTicket(RegisterId id);
  // None has. Returns the values that had.
  std::vector<registers::Value> WithdrawTickets();
  size_t num_tickets() const { return tickets_.size(); }

  // What the client reads and writes where it lies. What was lent is kept, and counted, until the
  // loan ends, whatever the registers hold meanwhile.
  MemoryLoans& loans() { return loans_; }
  // One of an earlier name of that index is over: see MemoryLoans::EndEarlier().
  void EndEarlierLoan(RegisterId id) {
    if (loans_.EndEarlier(id)) RecordKeptBytes();
  }
  // That of this name is over, if there is one.
  void EndLoan(RegisterId id) {
    loans_.End(id);
    RecordKeptBytes();
  }

  // Number of the first command that was not executed well: the one after the last that was.
  uint64_t next_command = 1;
  // Flow control, in FlowCost bytes.
  uint64_t consumed_bytes = 0;
  uint64_t reported_bytes = 0;

 private:
  control::SessionRecord record_;  // as it was when it was opened here; client and names as now
  registers::RegisterFile* const registers_;
  BulkServer* const bulk_;
  std::unordered_map<uint64_t, uint64_t> tickets_;  // by packed id: what the client has located
  std::map<std::string, std::shared_ptr<module::Module>> modules_;
  MemoryLoans loans_;
  InputHolders input_holders_;
  plan::KnownPrograms programs_;  // of this generation, and this client
  SessionFragments fragments_;    // the same
  bool looked_for_client_ = false;
  std::optional<WatchedProcess> client_process_;

  std::atomic<uint32_t> generation_{0};
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  // With mutex_ held: the session fails from a command on, unless it did from an earlier one.
  bool FailFrom(uint64_t command, const control::RemoteError& cause);

  void ForgetPrograms();
  // Counts what is kept of programs, fragments, and loans that have outlived their registers.
  // kResourceExhausted: they are beyond the limit, and what is new of them is not counted.
  Status CountKeptBytes();
  // The same where there is nothing to refuse.
  void RecordKeptBytes();
  Status WriteBesideLoans(RegisterId id, registers::Value&& value, registers::LayoutPtr layout);
  // The register's value is gone. What of it stays lent counts from now on.
  void OutliveLoans(RegisterId id) {
    if (loans_.Outlive(id.index)) RecordKeptBytes();
  }
  // Before a register's value goes: no one else keeps it.
  void LetGo(RegisterId id) {
    if (!tickets_.empty()) [[unlikely]]
      WithdrawTicket(id);
    if (!input_holders_.IsEmpty()) [[unlikely]]
      input_holders_.LetGo(id.index);
  }

  // With mutex_ held, after a failure.
  // Ends every wait for other ranks' CPUs.
  void AbortHosts();
  // Gives up what is on the GPU and not to be executed.
  void AbortOnGpu();

  std::atomic<uint64_t> fail_from_{kNever};
  mutable std::mutex mutex_;
  std::condition_variable failed_;
  control::RemoteError failure_;
  Deadline::Clock::time_point failed_at_;
  std::map<Generation, AbortOrder> early_aborts_;  // of generations that are yet to come
  uint64_t collective_ = 0;                        // the collective under way; 0: none
  std::atomic<uint64_t> polling_{0};               // what polls `must_end_`; 0: nothing
  std::atomic<int32_t> must_end_{0};
  CollectivesOnGpu on_gpu_;
  std::atomic<bool> cancelled_{false};  // they are to end
  CommunicatorCache communicators_;
  std::vector<std::weak_ptr<KeptCommunicators>> kept_;

  struct GivenUp {
    std::vector<Communicators> communicators;
    std::vector<std::shared_ptr<PlanGraphs>> graphs;  // destroyed first
  };
  // With mutex_ held: what plans have kept is theirs no more. The caller destroys it.
  GivenUp GiveUpKept(const std::string& why);
};

}  // namespace lockstep::worker
