// A worker's or client's channel to its controller: by socket, and by rings once it shares memory
// with it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/shm/answer_ring.h"
#include "runtime/control/shm/broadcast_ring.h"
#include "runtime/control/shm/ring_handover.h"
#include "runtime/control/shm/ring_link.h"
#include "runtime/control/shm/sealed_memory.h"

namespace lockstep::control {

// Threads: one at a time.
class RingClientChannel final : public ClientChannel {
 public:
  // What becomes of it once the controller has let go of the memory. kStop: it is done; the
  // controller's last words come yet. kGoOnBySocket: it is as before Attach(), and what was under
  // way is lost, as by a socket whose connection breaks.
  enum class AtEnd { kStop, kGoOnBySocket };
  // By `sockets`, until Attach().
  RingClientChannel(std::unique_ptr<ClientChannel> sockets, AtEnd at_end);
  ~RingClientChannel() override;

  // Takes the memory that `offer` leads to. The controller then says from which message on it is
  // used: that is seen here alone. An error says why messages go on by socket; kUnavailable: the
  // controller is on another host, or does not answer by the deadline. Not while it has some.
  Status Attach(const RingOffer& offer, Deadline deadline);
  // It has the memory, whether or not that is used yet.
  bool is_attached() const { return rings_ != nullptr; }
  // The controller's messages come by ring.
  bool by_ring() const { return rings_ != nullptr && rings_->reader.has_value(); }
  // The controller has closed its end, as it does when it ends: what was not in the ring by then is
  // lost.
  bool detached() const { return detached_; }
  // For who may not sleep on the channel for long, where the end of the link is noticed: it is
  // noticed now. kGoOnBySocket: also what a connection has lost that has been interrupted since all
  // was well: for `longest_gap` what is due by socket has not come, or the controller, which waits
  // for such a message itself, has read nothing of the ring. Then all goes by socket from now on. A
  // connection that only stands still loses nothing, and neither does a controller that does. One
  // that has never read is told again to.
  void NoticeEnd(std::chrono::milliseconds longest_gap);
  // Not OK (kStop): what was in the ring is lost, and no message comes any more.
  const Status& failure() const { return failure_; }

  bool HasInput() override;
  int wait_fd() const override { return all_.is_open() ? all_.get() : sockets_->wait_fd(); }
  bool drained() const override { return !by_ring() && sockets_->drained(); }
  void BeginSleep() override;
  void EndSleep() override;
  Status Send(const Message& message) override;
  bool Receive(Message* message) override;
  Status trouble() const override { return sockets_->trouble(); }
  void BeginLooking() override { sockets_->BeginLooking(); }
  void EndLooking() override { sockets_->EndLooking(); }
  bool by_memory() const override { return sockets_->by_memory(); }

 private:
  struct Rings {
    Rings(RingLink link, MappedMemory broadcast, MappedMemory answers, const RingPlace& place);

    RingLink link;
    const MappedMemory broadcast_pages;
    const MappedMemory answer_pages;
    const int slot;
    const BroadcastMemory broadcast;
    const AnswerMemory answers;
    const uint64_t largest_words;  // larger messages go by socket
    Waker controller;
    AnswerWriter writer;
    std::optional<BroadcastReader> reader;  // once the controller has said from where on
  };

  static constexpr int kEnough = 2;

  void Switch(uint64_t position);
  // Tells the controller to read the ring.
  void TellToRead();
  // What was said by socket is known to have come.
  bool HasArrived() const;
  // It has read nothing for so long, though there was something.
  bool IsUnreadFor(std::chrono::milliseconds gap, Deadline::Clock::time_point now);
  bool ReceiveByRing(Message* message);
  void WakeController();
  // The controller has let go of the memory: what it still says comes by socket.
  void Detach();
  // From now on all goes by socket.
  void DropRings();

  const std::unique_ptr<ClientChannel> sockets_;
  const AtEnd at_end_;
  Descriptor all_;  // readable when the sockets' or the link is; the same for good
  std::unique_ptr<Rings> rings_;
  bool detached_ = false;
  bool by_socket_is_due_ = false;  // the next message comes by socket
  Deadline::Clock::time_point due_since_;
  Deadline::Clock::time_point told_to_read_;
  // When IsUnreadFor() saw it read last, and up to where it had.
  Deadline::Clock::time_point read_at_;
  uint64_t read_to_ = 0;
  uint64_t interruptions_ = 0;  // of the sockets, when all was well last
  // Messages by ring since the last one by socket. The controller takes one while it waits for
  // that, and no second one, which ends at `arrived_at_`.
  int since_by_socket_ = kEnough;
  uint64_t arrived_at_ = 0;
  bool is_asleep_ = false;  // between BeginSleep() and EndSleep()
  unsigned looks_ = 0;
  uint64_t by_socket_ = 0;  // messages that the ring has said to come by socket
  uint64_t sent_ = 0;       // messages, since they are numbered
  Status failure_;
};

}  // namespace lockstep::control
