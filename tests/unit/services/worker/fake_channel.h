// A channel to a controller that is not there.
#pragma once

#include <vector>

#include "runtime/control/channel.h"

namespace lockstep::worker {

// Keeps what is sent.
class FakeChannel final : public control::ClientChannel {
 public:
  Status Send(const control::Message& message) override {
    sent.push_back(message);
    return OkStatus();
  }
  bool Receive(control::Message*) override { return false; }
  bool HasInput() override { return false; }
  int wait_fd() const override { return -1; }
  bool drained() const override { return true; }

  std::vector<control::Message> sent;
};

}  // namespace lockstep::worker
