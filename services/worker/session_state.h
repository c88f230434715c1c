// What one worker keeps for one session.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/communicator.h"
#include "runtime/control/error_codec.h"
#include "runtime/registers/register_file.h"
#include "services/worker/client_process.h"
#include "services/worker/communicator_cache.h"

namespace lockstep::worker {

// Who opened the session.
struct SessionOwner {
  int num_groups = 1;
  int client_pid = 0;
  std::string client_host;  // HostIdentity::id
};

// A session is usable, or it has failed: then its commands are skipped until it is reset. It fails
// by an error here, or by an abort that says what happened on another rank.
//
// Threads: the executing thread owns it; Abort() and the failure are safe from any thread.
class SessionState {
 public:
  SessionState(SessionId id, const SessionOwner& owner, registers::RegisterFile* registers)
      : id_(id), owner_(owner), registers_(registers) {}

  SessionId id() const { return id_; }
  const SessionOwner& owner() const { return owner_; }
  registers::RegisterFile& registers() { return *registers_; }
  Generation generation() const { return Generation(generation_.load(std::memory_order_acquire)); }

  bool has_failed() const { return failed_.load(std::memory_order_acquire); }
  // The first cause; only when it has failed.
  control::RemoteError failure() const;
  // True if this is the first failure of its generation.
  bool Fail(const control::RemoteError& cause);

  // Fails the session and wakes this rank from its collectives. Ignored for an older generation.
  // One for a later generation has overtaken the reset, which travels on another socket: it waits
  // for it.
  void Abort(Generation generation, const control::RemoteError& cause);

  // Usable again; the old communicators are dropped.
  void Reset(Generation generation);

  // This session's communicator of the team `name`, whose members are, for this rank, `members`
  // (world ranks, this one included); made from `world` when it is new. Null if `members` is empty:
  // this rank has no part in it, but all ranks ask in the same command (see CommunicatorCache).
  // Valid until the next call.
  StatusOr<collective::Communicator*> CommunicatorOf(const TeamName& name,
                                                     const std::vector<Rank>& members,
                                                     collective::Communicator& world,
                                                     Deadline deadline);

  // The client's process, if it is one of this host that can be watched; else null. Only to such a
  // process memory may be lent. Looked for once.
  ClientProcess* client_process();
  std::optional<ClientProcess> TakeClientProcess() { return std::move(client_process_); }

  // Bulk tickets of registers that the client has located.
  std::unordered_map<uint64_t, uint64_t>& tickets() { return tickets_; }

  // Flow control, in FlowCost bytes.
  uint64_t consumed_bytes = 0;
  uint64_t reported_bytes = 0;

 private:
  const SessionId id_;
  const SessionOwner owner_;
  registers::RegisterFile* const registers_;
  std::unordered_map<uint64_t, uint64_t> tickets_;
  bool looked_for_client_ = false;
  std::optional<ClientProcess> client_process_;

  std::atomic<uint32_t> generation_{0};
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;
  control::RemoteError failure_;
  struct EarlyAbort {
    Generation generation;
    control::RemoteError cause;
  };
  std::optional<EarlyAbort> early_abort_;
  CommunicatorCache communicators_;
};

}  // namespace lockstep::worker
