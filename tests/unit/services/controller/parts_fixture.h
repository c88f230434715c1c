// All parts of a controller on a clock that stands still, with no socket and no thread: what comes
// in are messages as they are on the wire, what goes out is read from the outbox.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/control/keys/gate.h"
#include "runtime/control/message_codec.h"
#include "schemas/control.capnp.h"
#include "schemas/session.capnp.h"
#include "services/controller/dispatcher.h"
#include "services/controller/options.h"
#include "services/controller/reports/metrics.h"
#include "tests/unit/services/controller/fakes.h"

namespace lockstep::controller {

using Fill = std::function<void(wire::ClientMessage::Builder)>;
using FillWorker = std::function<void(wire::WorkerMessage::Builder)>;

// Holds all identities but those that were revoked.
class FakeGate final : public control::Gate {
 public:
  control::KeyPair own() const override { return {}; }
  StatusOr<control::Identity> Admit(const control::PublicKey&) override { return NotFound("none"); }
  bool Holds(const control::Identity& identity) const override {
    return !revoked_.contains(identity.name);
  }
  uint64_t version() const override { return revoked_.size(); }
  void Revoke(const std::string& name) { revoked_.insert(name); }

 private:
  std::set<std::string> revoked_;
};

class PartsFixture : public testing::Test {
 protected:
  static constexpr Epoch kIncarnation{500};

  PartsFixture();

  // As set up before Start(): two workers, a lease of ten seconds.
  ControllerOptions options_;
  // Makes the parts; a second call, those of a controller that is started again.
  void Start(Epoch incarnation = kIncarnation);
  // The same, with all workers welcome and ready: peers "w0", "w1", ...
  void StartReady();

  Parts& parts() { return dispatcher_->parts(); }
  SessionEntry& session(SessionId id) { return *parts().sessions.Find(id); }

  // Says something; what the dispatcher says of it.
  Status FromClient(const control::PeerName& client, const Fill& fill);
  Status FromWorker(const control::PeerName& worker, const FillWorker& fill,
                    const std::string& body = "");
  // A worker of the rank says hello. `fill` changes it.
  void Hello(const control::PeerName& worker, Rank rank,
             const std::function<void(wire::Hello::Builder)>& fill = {});
  // It is ready for the world that it was welcomed to last.
  void Ready(const control::PeerName& worker);
  // What it was told of by liveness.
  void Lose(Rank rank, const std::string& reason);
  void Pass(std::chrono::milliseconds time);  // and timers are handled, as often as they ask for it

  // Opens a session and forgets what was said about it.
  SessionId Open(const control::PeerName& client,
                 const std::function<void(wire::OpenSession::Builder)>& fill = {});
  // Of one command; `request` 0: nothing answers.
  Status Batch(const control::PeerName& client, SessionId id, uint64_t first, uint64_t request = 0,
               uint32_t count = 1, size_t body_bytes = 64) {
    return Batch(client, id, GenerationOf(id), first, request, count, body_bytes);
  }
  // The same in a generation that need not be the session's.
  Status Batch(const control::PeerName& client, SessionId id, Generation generation, uint64_t first,
               uint64_t request = 0, uint32_t count = 1, size_t body_bytes = 64);
  Status Reset(const control::PeerName& client, SessionId id, uint32_t generation, uint64_t request,
               uint64_t next_command = 0, uint64_t sent_bytes = 0);
  void Close(const control::PeerName& client, SessionId id, uint64_t request,
             uint64_t timeout_millis = 5000);
  // `rank` answers, as worker "wN".
  void Reply(Rank rank, SessionId id, uint64_t request, StatusCode code = StatusCode::kOk,
             uint32_t generation = 0);
  void ReplyAll(SessionId id, uint64_t request);
  void Fail(Rank rank, SessionId id, uint64_t command, const std::string& message,
            uint32_t generation = 0, StatusCode code = StatusCode::kInternal);
  void Consume(Rank rank, SessionId id, uint64_t bytes);

  // What was put into the outbox since the last call of any of these, as lines that tell of it:
  // to this client, to this worker alone, to all workers.
  std::vector<std::string> ToClient(const control::PeerName& client);
  std::vector<std::string> ToWorker(const control::PeerName& worker);
  std::vector<std::string> ToAllWorkers();
  // What liveness was told to abort: "session.generation from command: cause", and " (rank N)"
  // where it was to tell one alone.
  std::vector<std::string> Aborts();
  // All of it in the order in which it was said, whatever its way: "c: failed ...", "all: 3: ...",
  // "abort 1.0 from 3: ...".
  std::vector<std::string> Journal();
  // Forgets all of it.
  void Forget();

  FakeClock clock_;
  FakeProcesses processes_;
  FakeLiveness liveness_;
  FakeReachability reachability_;
  FakeRings client_rings_;
  FakeRings rings_;
  FakeTree tree_;
  std::shared_ptr<FakeGate> gate_;           // null: no client is asked for a key
  std::optional<control::Identity> sender_;  // of what FromClient() says
  std::vector<std::string> shutdowns_;       // that were asked for
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<Dispatcher> dispatcher_;

 private:
  // 0 if there is no such session.
  Generation GenerationOf(SessionId id) {
    return parts().sessions.Find(id) == nullptr ? Generation() : session(id).generation;
  }
  // What was put into the outbox, or an abort.
  struct Said {
    Outbox::Item item;
    std::string abort;  // empty: it is `item`
  };
  void Collect();
  // Takes those out of said_ for which `take` returns true.
  void TakeItems(const std::function<bool(const Outbox::Item&)>& take);

  std::vector<Said> said_;
};

}  // namespace lockstep::controller
