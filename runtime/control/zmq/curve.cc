#include "runtime/control/zmq/curve.h"

namespace lockstep::control {
namespace {

// How long a peer may take to prove who it is: a connection that never does is closed. What
// strangers can make a listener hold is what the network carries in this time.
constexpr int kHandshakeMillis = 5'000;

void SetBytes(Socket& socket, int option, const void* bytes, size_t size) {
  zmq_setsockopt(socket.handle(), option, bytes, size);
}

}  // namespace

bool IsForKeys(const std::string& endpoint) { return endpoint.rfind("tcp://", 0) == 0; }

void ListenWithKey(Socket& socket, const KeyPair& own, const std::string& domain) {
  socket.Set(ZMQ_CURVE_SERVER, 1);
  SetBytes(socket, ZMQ_CURVE_SECRETKEY, own.secret_key.bytes().data(), kKeyBytes);
  SetBytes(socket, ZMQ_ZAP_DOMAIN, domain.data(), domain.size());
  socket.Set(ZMQ_HANDSHAKE_IVL, kHandshakeMillis);
}

void ConnectWithKey(Socket& socket, const KeyPair& own, const PublicKey& listener) {
  SetBytes(socket, ZMQ_CURVE_SERVERKEY, listener.bytes.data(), kKeyBytes);
  SetBytes(socket, ZMQ_CURVE_PUBLICKEY, own.public_key.bytes.data(), kKeyBytes);
  SetBytes(socket, ZMQ_CURVE_SECRETKEY, own.secret_key.bytes().data(), kKeyBytes);
  socket.Set(ZMQ_HANDSHAKE_IVL, kHandshakeMillis);
}

}  // namespace lockstep::control
