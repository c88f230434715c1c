// What tests of channels over ZeroMQ send, and how they wait for it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>

#include "runtime/base/deadline.h"
#include "runtime/control/channel.h"
#include "runtime/control/input_waiter.h"

namespace lockstep::control {

inline constexpr std::chrono::seconds kLong{20};

inline Frame FrameOf(const std::string& text) { return Frame::Copy(text.data(), text.size()); }
inline std::string TextOf(const Frame& frame) {
  return std::string(reinterpret_cast<const char*>(frame.data()), frame.size());
}

inline bool WaitFor(Channel& channel) {
  InputWaiter waiter(std::chrono::microseconds(0));
  Channel* const channels[] = {&channel};
  return waiter.Wait(channels, {}, Deadline::After(kLong));
}

// Waits until `take()` has got a message: one that has come may be dropped for what it is.
template <typename Take>
void TakeNext(Channel& channel, Take take) {
  while (!take()) {
    const bool has_input = WaitFor(channel);
    EXPECT_TRUE(has_input);
    if (!has_input) return;
  }
}

// The next message; empty (and a failure) if none comes.
inline Message ReceiveFrom(ClientChannel& channel) {
  Message message;
  TakeNext(channel, [&] { return channel.Receive(&message); });
  return message;
}
inline Message ReceiveFrom(ServerChannel& channel, PeerName* from) {
  Message message;
  TakeNext(channel, [&] { return channel.Receive(from, &message); });
  return message;
}

// An endpoint of each kind, not yet used.
inline std::string NewEndpoint(const std::string& transport) {
  static int counter = 0;
  const std::string unique =
      std::to_string(std::random_device()()) + "-" + std::to_string(++counter);
  if (transport == "tcp") return "tcp://127.0.0.1:*";
  // Sockets' paths are short: the test's own directory may be too long.
  if (transport == "ipc") return "ipc:///tmp/zmq_channel_test-" + unique;
  return "inproc://" + unique;
}

}  // namespace lockstep::control
