// Messages under way, and what wakes the threads that wait for them.
#pragma once

#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "runtime/base/ids.h"

namespace lockstep::collective::gloo {

// Threads: one at a time; Wake() may come from any.
class PendingMessage {
 public:
  enum class State {
    kUnderWay,
    kDone,
    kLost,  // the connection is
  };

  // The memory is borrowed until this object's end, after which Gloo does not touch it.
  PendingMessage(::gloo::transport::Context& context, Rank peer, void* data, size_t size_bytes)
      : peer_(peer), buffer_(context.createUnboundBuffer(data, size_bytes)) {}

  Rank peer() const { return peer_; }

  // Begins; once. False if the connection is lost.
  bool Send(uint64_t tag);
  bool Receive(uint64_t tag);

  // Waits until it is done or lost, or woken (kUnderWay, even if it is done).
  State Wait();
  // Ends a Wait(): that which is under way, else the next.
  void Wake();

 private:
  const Rank peer_;
  const std::unique_ptr<::gloo::transport::UnboundBuffer> buffer_;
  bool receives_ = false;
};

// Wakes the threads that wait for messages of Gloo, again and again, so that they look around.
//
// Gloo's waits do not end when the connection is lost in the middle of the message (only what is
// queued behind is told), and one that times out closes every connection of its context. So no
// thread waits with a time-out here: it is woken now and then, and looks.
//
// Threads: safe. The callbacks come on a thread of its own, which lives as long as this.
class PeriodicWaker {
 public:
  using Callback = std::function<void()>;
  using Handle = std::list<Callback>::iterator;

  PeriodicWaker();
  ~PeriodicWaker();

  // Calls `callback` every 20 ms, until Remove() has returned.
  Handle Add(Callback callback);
  void Remove(Handle handle);

  // While one lives, the callbacks come every millisecond.
  class Boost {
   public:
    explicit Boost(PeriodicWaker& waker) : waker_(waker) { waker_.AddBoost(1); }
    ~Boost() { waker_.AddBoost(-1); }
    Boost(const Boost&) = delete;
    Boost& operator=(const Boost&) = delete;

   private:
    PeriodicWaker& waker_;
  };

 private:
  void AddBoost(int more);
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Callback> callbacks_;
  int boosts_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep::collective::gloo
