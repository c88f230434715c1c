// The controller's channel to its workers, or to its clients: by rings to those that share memory
// with it, by socket to all others, in one order.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/shm/answer_ring.h"
#include "runtime/control/shm/ring_handover.h"
#include "runtime/control/shm/ring_host.h"
#include "runtime/control/shm/ring_output.h"
#include "runtime/control/shm/sealed_memory.h"

namespace lockstep::control {

// Messages for peers that are slow wait here once their ring is full, as they otherwise do in
// sockets' queues; what sessions may have under way bounds both.
//
// Threads: one at a time.
class RingServerChannel final : public ServerChannel {
 public:
  // Who has rings. Workers are told the same, in one ring that all of them read. Clients are told
  // different things, and must not hold each other back: each has a ring of its own.
  enum class Peers { kWorkers, kClients };
  // For at most `slots` peers at a time. kUnavailable: this host has no such memory; then `sockets`
  // are left as they were.
  // `longest_gap`: how long a message may stay away that a peer has sent by socket before one that
  // has come by ring, the note to read that included; then its connection has lost it, and the peer
  // is broken.
  static StatusOr<std::unique_ptr<RingServerChannel>> Create(
      std::unique_ptr<ServerChannel>&& sockets, Peers peers, int slots,
      std::chrono::milliseconds longest_gap);
  ~RingServerChannel() override;

  // For the peer's welcome; none: it has its ring already.
  std::optional<RingOffer> OfferTo(const PeerName& peer);
  // The peer is not counted on any more: it is not waited for.
  void GiveUp(const PeerName& peer);
  // Messages to the peer go by ring.
  bool IsByRing(const PeerName& peer) const;
  // Messages for the peer wait for others that have yet to read: it has read all that is there.
  bool IsHeldBack(const PeerName& peer) const;
  // A peer that has written what cannot be, and why; nothing more is taken from it. Each once.
  struct Broken {
    PeerName peer;
    std::string address;  // as SenderAddress()
    Status why;
  };
  std::vector<Broken> TakeBroken();

  bool HasInput() override;
  int wait_fd() const override { return host_->wait_fd(); }
  bool drained() const override { return slot_of_.empty() && sockets_->drained(); }
  void BeginSleep() override;
  void EndSleep() override;
  void CancelSleep() override;
  bool HasInputAtHand() override;
  bool by_memory() const override { return slot_of_.size() == slots_.size(); }
  const std::string& endpoint() const override { return sockets_->endpoint(); }
  Status Send(absl::Span<const PeerName> peers, const Message& message) override;
  bool Receive(PeerName* from, Message* message) override;
  // Null also of what has come by ring, which shows no key. Workers have shown theirs by socket
  // before they are offered a ring; a client that needs one must not be offered any.
  const Identity* sender() const override { return last_by_ring_ ? nullptr : sockets_->sender(); }
  std::string SenderAddress() const override;

 private:
  // A peer that has its ring.
  struct Slot {
    Slot(RingHost::Mapped mapped, std::shared_ptr<RingOutput> said, uint64_t answer_words);
    bool HasInput() const;

    // The ring's next message, while one before it comes by socket.
    struct Held {
      uint64_t number = 0;
      Message message;
    };
    const PeerName peer;
    const pid_t pid;
    const MappedMemory pages;
    const AnswerMemory answers;
    const std::shared_ptr<RingOutput> output;  // what it is told
    AnswerReader reader;
    Waker waker;
    bool is_active = false;  // messages for it are written to the ring
    bool is_read = false;    // its messages are numbered, and may come by ring
    // When that was not so, and something lay in its ring, for the first time.
    std::optional<Deadline::Clock::time_point> unread_since;
    bool has_ended = false;  // its link is closed: what is left in its ring is read yet
    Deadline::Clock::time_point ended_at;
    uint64_t received = 0;   // number of its last message
    uint64_t by_socket = 0;  // messages that it was sent by socket since it has its ring
    std::optional<Held> held;
    Deadline::Clock::time_point held_since;
  };
  struct BySocket {
    static constexpr uint64_t kAfterAll = 0;  // that is in the ring, which then ends

    int slot;
    uint64_t number;
    Message message;
  };

  RingServerChannel(std::unique_ptr<ServerChannel> sockets, std::unique_ptr<RingHost> host,
                    std::shared_ptr<RingOutput> shared, std::chrono::milliseconds longest_gap);

  Slot& at(int slot) { return *slots_[static_cast<size_t>(slot)]; }
  // While all workers have rings, only when their descriptor has told: to ask sockets takes as long
  // as a few messages by ring. Any client may have none, but while some have, they set the pace.
  bool MustAskSockets() const {
    const size_t enough = shared_ == nullptr ? 1 : slots_.size();
    return sockets_are_due_ || slot_of_.size() < enough || !sockets_->drained();
  }
  bool IsOver(const Slot& slot) const { return shared_ == nullptr && slot.has_ended; }
  // A client that has ended: something that it has sent by socket may still come.
  bool IsLateWith(const Slot& slot) const { return shared_ == nullptr && slot.is_active; }
  // Each output once.
  template <typename Do>
  void ForEachOutput(Do&& what);
  // Who has mapped its ring, and who has ended. In one of so many turns, and before a sleep.
  bool MustLookAtHost();
  void LookAtHost();
  // Those that have mapped their ring are written to, once nothing waits for room. Not while a
  // message is sent, whose way is chosen by who is written to.
  void ActivateMapped();
  // Those whose messages by socket stay away.
  void NoticeGaps();
  void Free(int slot);
  void Break(int slot, const Status& why);

  // Larger messages go by socket.
  uint64_t LargestWords() const;
  // By socket, to clients whose rings say so.
  void SendNumbered(absl::Span<const int> slots, const Message& message);
  void Publish(RingOutput& output, RecordKind kind, uint64_t tag, const Message& message);
  // Those that say to have read what was not written.
  void BreakLiars(RingOutput& output);
  void PublishWaiting();
  void WakeReaders();

  bool TakeFromRings(PeerName* from, Message* message);
  bool TakeFrom(int slot, PeerName* from, Message* message);
  bool TakeStashed(PeerName* from, Message* message);
  // True if `message` is to be handed out; else it was one of the channel's own, or of no good.
  bool TakeBySocket(PeerName* from, Message* message);
  void NoteReceived(Slot& slot, PeerName* from);

  const std::unique_ptr<ServerChannel> sockets_;
  const std::unique_ptr<RingHost> host_;
  const std::chrono::milliseconds longest_gap_;
  const std::shared_ptr<RingOutput> shared_;   // null: each peer has one of its own
  std::vector<int> mapped_;                    // slots that are not active yet
  std::vector<std::unique_ptr<Slot>> slots_;   // null: it is free
  std::unordered_map<PeerName, int> slot_of_;  // of those that are active
  std::optional<BySocket> stashed_;            // what was sent after messages that are in its ring
  std::vector<Broken> broken_;
  size_t turn_ = 0;
  unsigned looks_ = 0;
  bool must_look_ = false;       // at the host, before somebody sleeps
  bool is_asleep_ = false;       // or about to be
  bool sockets_are_due_ = true;  // their descriptor was readable, or they had something
  // Of the message that was received last.
  bool last_by_ring_ = false;
  pid_t last_pid_ = 0;
};

}  // namespace lockstep::control
