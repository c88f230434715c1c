// Channels carry messages between processes (or threads) without knowing what they mean.
//
// The controller listens with a ServerChannel; workers and clients connect with a ClientChannel.
// Messages between two peers arrive whole and in order, or not at all. Nothing here blocks: a
// thread that wants to wait for several things uses an InputWaiter (input_waiter.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/control/keys/allow_list.h"

namespace lockstep::control {

// A part of a message: immutable bytes with shared ownership.
//
// Copies share the bytes. A frame can hold bytes of anything: a buffer of the sender, or a message
// of the transport that it was received with.
//
// Threads: as safe as a shared_ptr; the bytes never change.
class Frame {
 public:
  Frame() = default;
  // `owner` keeps [data, data + size_bytes) alive.
  Frame(std::shared_ptr<const void> owner, const void* data, size_t size_bytes)
      : owner_(std::move(owner)), data_(static_cast<const std::byte*>(data)), size_(size_bytes) {}

  static Frame Copy(const void* data, size_t size_bytes) {
    auto bytes = std::make_shared_for_overwrite<uint64_t[]>((size_bytes + 7) / 8);
    if (size_bytes > 0) std::memcpy(bytes.get(), data, size_bytes);
    const void* start = bytes.get();
    return Frame(std::move(bytes), start, size_bytes);
  }

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // `size_bytes` of it from `offset` on, which are in it.
  Frame Part(size_t offset, size_t size_bytes) const {
    return Frame(owner_, data_ + offset, size_bytes);
  }

 private:
  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// What is sent and received as one: all frames or none.
using Message = absl::InlinedVector<Frame, 2>;

// Threads: one thread at a time uses a channel; handing it on needs a lock or another fence.
class Channel {
 public:
  virtual ~Channel() = default;
  Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // True if a message has come, though Receive may yet drop it for being no good.
  virtual bool HasInput() = 0;

  // A descriptor that becomes readable when input may have come. It is edge-like: sleep on it only
  // while drained(), and ask HasInput() or Receive() once it is readable.
  virtual int wait_fd() const = 0;

  // True if no input can have come without making wait_fd() readable: HasInput() or Receive() has
  // found nothing, and nothing was sent since (sending may take the edge away).
  virtual bool drained() const = 0;

  // Around sleeping on wait_fd(). A channel by shared memory is never drained(): its peers make
  // wait_fd() readable only in between, so it is asked once more after BeginSleep().
  virtual void BeginSleep() {}
  virtual void EndSleep() {}
  // Instead of EndSleep(), by a thread that has not slept: nothing has woken it, and what the
  // system may have to say is left to the next look. Leaves wait_fd() as readable as it is, for a
  // thread that does sleep.
  virtual void CancelSleep() { EndSleep(); }
  // HasInput() without what only the system knows, and wait_fd() tells who sleeps on it: what has
  // come through shared memory, and what has been found already.
  virtual bool HasInputAtHand() { return HasInput(); }

  // True if what comes is brought by processes that share memory with this one, and by nothing in
  // between: they are what a thread gives the processor to that waits awake (YieldPhase).
  virtual bool by_memory() const { return false; }
};

class ClientChannel : public Channel {
 public:
  // Queues `message`. kUnavailable if the channel is closed.
  virtual Status Send(const Message& message) = 0;
  // Takes the next message; false if there is none.
  virtual bool Receive(Message* message) = 0;
  // Around a time in which a thread sends, and then asks for input again and again, or sleeps
  // between BeginSleep() and EndSleep(). Threads that do so at the same time each say it.
  virtual void BeginLooking() {}
  virtual void EndLooking() {}
  // What is known to be wrong with the connection; OK: nothing is. kPermissionDenied: the listener
  // does not let us in; kUnavailable: another process listens there than was expected.
  virtual Status trouble() const { return OkStatus(); }
  // How often the connection has ended, whether or not there is another by now: messages may have
  // been lost each time. HasInput() is true once when that happens.
  virtual uint64_t interruptions() { return 0; }
};

// A peer of a ServerChannel: opaque bytes, unique among those connected.
using PeerName = std::string;

class ServerChannel : public Channel {
 public:
  // Where peers connect to, with the real port if any free one was asked for.
  virtual const std::string& endpoint() const = 0;
  // Queues `message` to every one of `peers`, sharing the frames. A peer that is gone loses it.
  virtual Status Send(absl::Span<const PeerName> peers, const Message& message) = 0;
  virtual bool Receive(PeerName* from, Message* message) = 0;
  // The sender of what Receive() gave last, as its key shows; null: no key is asked for here.
  // Borrowed until the next Receive().
  virtual const Identity* sender() const { return nullptr; }
  // For people, where that message came from: an address without the port, which the next
  // connection would have another of, or "process 4711 of user 1000"; empty: that is not known.
  virtual std::string SenderAddress() const { return ""; }
};

}  // namespace lockstep::control
