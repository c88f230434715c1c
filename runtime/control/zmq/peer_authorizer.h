// Which peer has sent a message, and whether it may still send.
// Private to this folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "runtime/control/keys/gate.h"
#include "runtime/control/zmq/socket.h"

namespace lockstep::control {

// A connection was let in when it was made. What its owner may do can change later, so each message
// is asked about; the answers are kept until the gate changes its mind about anything.
//
// Threads: one at a time.
class PeerAuthorizer {
 public:
  // `gate` null: all may.
  explicit PeerAuthorizer(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {}

  // False: the message is to be dropped.
  bool Accept(const ReceivedPart& part);
  // The sender of the message that was accepted last; null: no key was asked for.
  const Identity* current() const { return current_; }

 private:
  struct Known {
    Identity identity;
    bool may_send = false;
  };
  const Known& LookUp(const std::string& user);

  std::shared_ptr<Gate> gate_;
  uint64_t version_ = 0;  // of the gate, when `known_` was empty last
  std::unordered_map<std::string, Known> known_;
  const Identity* current_ = nullptr;
};

}  // namespace lockstep::control
