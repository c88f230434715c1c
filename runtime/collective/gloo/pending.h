// A message under way.
#pragma once

#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/base/ids.h"

namespace lockstep::collective::gloo {

// Threads: one at a time; Nudge() may come from any.
class Pending {
 public:
  enum class State {
    kUnderWay,
    kDone,
    kLost,  // the connection is
  };

  // The memory is borrowed until this object's end, after which Gloo does not touch it.
  Pending(::gloo::transport::Context& context, Rank peer, void* data, size_t size_bytes)
      : peer_(peer), buffer_(context.createUnboundBuffer(data, size_bytes)) {}

  Rank peer() const { return peer_; }

  // Begins; once. False if the connection is lost.
  bool Send(uint64_t tag);
  bool Receive(uint64_t tag);

  // Waits until it is done or lost, or nudged (kUnderWay, even if it is done).
  State Wait();
  // Ends a Wait(): that which is under way, else the next.
  void Nudge();

 private:
  const Rank peer_;
  const std::unique_ptr<::gloo::transport::UnboundBuffer> buffer_;
  bool receives_ = false;
};

}  // namespace lockstep::collective::gloo
