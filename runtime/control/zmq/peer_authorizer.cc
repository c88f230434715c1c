#include "runtime/control/zmq/peer_authorizer.h"

#include "runtime/base/log.h"

namespace lockstep::control {

bool PeerAuthorizer::Accept(const ReceivedPart& part) {
  current_ = nullptr;
  if (gate_ == nullptr) return true;
  zmq_msg_t* const message = const_cast<zmq_msg_t*>(&part.message);
  // What the ZAP handler has said about the connection.
  const char* const user = zmq_msg_gets(message, "User-Id");
  // (ZeroMQ would let a connection in without asking if there were no ZAP handler.)
  if (user == nullptr) return false;
  const Known& known = LookUp(user);
  if (known.may_send) current_ = &known.identity;
  return known.may_send;
}

const PeerAuthorizer::Known& PeerAuthorizer::LookUp(const std::string& user) {
  if (const uint64_t version = gate_->version(); version != version_) {
    known_.clear();
    version_ = version;
  }
  const auto found = known_.find(user);
  if (found != known_.end()) return found->second;
  Known known;
  if (StatusOr<Identity> identity = Identity::Parse(user); identity.ok()) {
    known = {*identity, gate_->Holds(*identity)};
    if (!known.may_send) {
      log::Warn("what ", Name(identity->role), " \"", identity->name, "\" (", identity->key.Text(),
                ") says is dropped: the key is not allowed any more");
    }
  }
  return known_.emplace(user, std::move(known)).first->second;
}

}  // namespace lockstep::control
