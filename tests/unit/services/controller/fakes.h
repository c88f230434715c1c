// What the controller's parts are given from outside, as tests have it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/control/error_codec.h"
#include "services/controller/common/client_processes.h"
#include "services/controller/common/clock.h"
#include "services/controller/common/command_rings.h"
#include "services/controller/common/command_tree.h"
#include "services/controller/common/liveness.h"

namespace lockstep::controller {

// Stands still until it is moved.
class FakeClock final : public Clock {
 public:
  TimePoint Now() const override { return now; }
  Epoch NewEpoch() const override { return next_epoch; }

  TimePoint now = TimePoint() + std::chrono::hours(1000);
  Epoch next_epoch{1000};
};

// All are alive, but those that have ended; those of "elsewhere" cannot be watched.
class FakeProcesses final : public ClientProcesses {
 public:
  std::shared_ptr<const ClientProcess> Watch(const std::string& host_id, int pid) override {
    if (host_id == "elsewhere") return nullptr;
    return std::make_shared<Process>(ended, pid);
  }

  std::set<int> ended;

 private:
  class Process final : public ClientProcess {
   public:
    Process(const std::set<int>& ended, int pid) : ended_(ended), pid_(pid) {}
    bool HasEnded() const override { return ended_.contains(pid_); }

   private:
    const std::set<int>& ended_;
    const int pid_;
  };
};

// Records what it is told, and hears what it is given.
class FakeLiveness final : public Liveness {
 public:
  struct Aborted {
    SessionId session;
    Generation generation;
    uint64_t from_command = 0;
    control::RemoteError cause;
    std::optional<Rank> only;
  };

  WatchId Watch(Rank, const std::string&, int, const std::string&) override {
    return WatchId(++last_watch);
  }
  void NoteAlive(Rank rank) override { alive.push_back(rank); }
  void ExpectHeartbeats(Rank rank) override { expected.push_back(rank); }
  void Forget(Rank rank) override { forgotten.push_back(rank); }
  WorkerLoss GiveUp(Rank rank, const std::string& reason) override {
    given_up.push_back(rank);
    return {rank, WatchId(), reason, heard[rank]};
  }
  std::vector<WorkerLoss> TakeLosses() override { return std::exchange(losses, {}); }
  LastHeard LastHeardOf(Rank rank) const override {
    const auto found = heard.find(rank);
    return found == heard.end() ? LastHeard() : found->second;
  }
  void Abort(SessionId session, Generation generation, uint64_t from_command,
             const control::RemoteError& cause, std::optional<Rank> only) override {
    if (on_abort) on_abort({session, generation, from_command, cause, only});
  }
  void BreakWorld(Epoch epoch) override { broken.push_back(epoch); }
  void Probe(uint64_t probe) override { probes.push_back(probe); }
  void AskRegisters(uint64_t probe, Rank rank, SessionId, uint32_t) override {
    probes.push_back(probe);
    asked.push_back(rank);
  }
  void Tell(control::Frame frame, std::optional<Rank> only) override {
    told.emplace_back(std::move(frame), only);
  }

  std::function<void(const Aborted&)> on_abort;
  uint64_t last_watch = 0;
  std::vector<WorkerLoss> losses;
  std::map<Rank, LastHeard> heard;
  std::vector<Rank> alive;
  std::vector<Rank> expected;
  std::vector<Rank> forgotten;
  std::vector<Rank> given_up;
  std::vector<Rank> asked;  // for their registers
  std::vector<Epoch> broken;
  std::vector<uint64_t> probes;
  std::vector<std::pair<control::Frame, std::optional<Rank>>> told;
};

// All can be reached, but those of which something else is said.
class FakeReachability final : public Reachability {
 public:
  std::optional<Status> Ask(const std::string& endpoint) override {
    const auto found = answers.find(endpoint);
    return found == answers.end() ? std::optional<Status>(OkStatus()) : found->second;
  }

  std::map<std::string, std::optional<Status>> answers;
};

// Every worker is offered a ring, once `are_on`.
class FakeRings final : public CommandRings {
 public:
  std::optional<control::RingOffer> OfferTo(const control::PeerName& worker) override {
    if (!are_on) return std::nullopt;
    return control::RingOffer{"rings", "nonce of " + worker};
  }
  void GiveUp(const control::PeerName& worker) override { given_up.push_back(worker); }
  bool IsHeldBack(const control::PeerName& worker) const override {
    return held_back.contains(worker);
  }
  MessagePath PathTo(const control::PeerName& worker) const override {
    return by_ring.contains(worker) ? MessagePath::kRing : MessagePath::kSocket;
  }

  bool are_on = false;
  std::set<control::PeerName> by_ring;
  std::set<control::PeerName> held_back;
  std::vector<control::PeerName> given_up;
};

// All workers but `without` have a place in it, once it `is_on`.
class FakeTree final : public CommandTree {
 public:
  void Arrange(const std::vector<control::PeerName>& peers) override { arranged.push_back(peers); }
  std::optional<control::TreeOffer> OfferTo(const control::PeerName& worker) override {
    if (!is_on || arranged.empty() || without.contains(worker)) return std::nullopt;
    return control::TreeOffer{arranged.size(), 7, true, {}, {}};
  }
  void GiveUp(const control::PeerName& worker) override { given_up.push_back(worker); }
  bool Reparent(const control::PeerName& worker) override { return by_relay.erase(worker) > 0; }
  bool IsByRelay(const control::PeerName& worker) const override {
    return by_relay.contains(worker);
  }

  bool is_on = false;
  std::set<control::PeerName> without;
  std::set<control::PeerName> by_relay;
  std::vector<std::vector<control::PeerName>> arranged;
  std::vector<control::PeerName> given_up;
};

}  // namespace lockstep::controller
