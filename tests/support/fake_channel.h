// A client's channel without a peer: a test gives it what arrives, and sees what is sent.
#pragma once

#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/input_waiter.h"

namespace lockstep::support {

// Threads: one at a time.
class FakeChannel final : public control::ClientChannel {
 public:
  // `message` has come from the peer.
  void Arrive(control::Message message) {
    arrived_.push_back(std::move(message));
    wake_up_.Signal();
  }
  // In the order in which they were sent.
  const std::vector<control::Message>& sent() const { return sent_; }

  // Called with what is sent, by the thread that sends it: what answers at once, arrives here.
  std::function<void(const control::Message&)> on_sent;

  Status Send(const control::Message& message) override {
    sent_.push_back(message);
    if (on_sent) on_sent(message);
    return OkStatus();
  }
  bool Receive(control::Message* message) override {
    if (arrived_.empty()) return false;
    *message = std::move(arrived_.front());
    arrived_.pop_front();
    return true;
  }
  bool HasInput() override { return !arrived_.empty(); }
  int wait_fd() const override { return wake_up_.fd(); }
  bool drained() const override { return false; }

 private:
  std::deque<control::Message> arrived_;
  std::vector<control::Message> sent_;
  control::WakeUp wake_up_;
};

}  // namespace lockstep::support
