#include "runtime/control/zmq/zmq_channel.h"

#include <zmq.h>

#include <array>
#include <random>
#include <utility>
#include <vector>

#include "runtime/control/zmq/endpoint.h"
#include "runtime/control/zmq/ipc_claim.h"
#include "runtime/control/zmq/socket.h"

namespace lockstep::control {
namespace {

class DealerChannel final : public ClientChannel {
 public:
  explicit DealerChannel(Socket socket) : socket_(std::move(socket)), fd_(socket_.wait_fd()) {}

  bool HasInput() override { return socket_.HasInput(); }
  int wait_fd() const override { return fd_; }
  bool drained() const override { return socket_.drained(); }

  Status Send(const Message& message) override {
    for (size_t i = 0; i < message.size(); ++i) {
      zmq_msg_t part;
      FillPart(&part, message[i]);
      LOCKSTEP_RETURN_IF_ERROR(socket_.SendPart(&part, i + 1 < message.size()));
    }
    return OkStatus();
  }

  bool Receive(Message* message) override {
    while (std::shared_ptr<ReceivedPart> part = socket_.ReceivePart()) {
      message->clear();
      if (socket_.ReceiveFrames(std::move(part), message)) return true;
    }
    return false;
  }

 private:
  Socket socket_;
  const int fd_;
};

class RouterChannel final : public ServerChannel {
 public:
  RouterChannel(Socket socket, std::string endpoint, std::vector<IpcClaim> claims)
      : claims_(std::move(claims)),
        socket_(std::move(socket)),
        fd_(socket_.wait_fd()),
        endpoint_(std::move(endpoint)) {}

  bool HasInput() override { return socket_.HasInput(); }
  int wait_fd() const override { return fd_; }
  bool drained() const override { return socket_.drained(); }
  const std::string& endpoint() const override { return endpoint_; }

  Status Send(absl::Span<const PeerName> peers, const Message& message) override {
    absl::InlinedVector<zmq_msg_t, 2> originals(message.size());
    for (size_t i = 0; i < message.size(); ++i) FillPart(&originals[i], message[i]);
    Status status;
    for (const PeerName& peer : peers) {
      status.Update(SendTo(peer, originals));
    }
    for (zmq_msg_t& original : originals) zmq_msg_close(&original);
    return status;
  }

  bool Receive(PeerName* from, Message* message) override {
    while (const std::shared_ptr<ReceivedPart> part = socket_.ReceivePart()) {
      message->clear();
      from->assign(static_cast<const char*>(zmq_msg_data(&part->message)),
                   zmq_msg_size(&part->message));
      if (!Socket::More(*part) || socket_.ReceiveFrames(socket_.ReceivePart(), message))
        return true;
    }
    return false;
  }

 private:
  Status SendTo(const PeerName& peer, absl::InlinedVector<zmq_msg_t, 2>& originals) {
    zmq_msg_t part;
    CopyInto(&part, peer.data(), peer.size());
    LOCKSTEP_RETURN_IF_ERROR(socket_.SendPart(&part, !originals.empty()));
    for (size_t i = 0; i < originals.size(); ++i) {
      zmq_msg_init(&part);
      zmq_msg_copy(&part, &originals[i]);
      LOCKSTEP_RETURN_IF_ERROR(socket_.SendPart(&part, i + 1 < originals.size()));
    }
    return OkStatus();
  }

  const std::vector<IpcClaim> claims_;  // let go of when the socket is closed
  Socket socket_;
  const int fd_;
  const std::string endpoint_;
};

// A name of our own choice, so that a peer keeps it when its connection is made anew. ZeroMQ
// reserves names that begin with a zero byte.
using RoutingId = std::array<char, 17>;
RoutingId NewRoutingId() {
  std::random_device random;
  RoutingId id;
  id[0] = 'L';
  for (size_t i = 1; i < id.size(); ++i) id[i] = static_cast<char>(random());
  return id;
}

StatusOr<IpcClaim> Bind(const Socket& socket, const std::string& wanted, bool beyond_loopback) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string endpoint, WhereToListen(wanted, beyond_loopback));
  LOCKSTEP_ASSIGN_OR_RETURN(IpcClaim claim, IpcClaim::Take(endpoint));
  if (zmq_bind(socket.handle(), endpoint.c_str()) != 0) {
    return ZmqError("cannot listen on \"" + endpoint + "\"");
  }
  claim.Bound();
  return claim;
}

}  // namespace

StatusOr<std::unique_ptr<ClientChannel>> ZmqConnect(std::shared_ptr<ZmqContext> context,
                                                    const std::string& endpoint,
                                                    const ZmqOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(Socket socket, Socket::Open(std::move(context), ZMQ_DEALER, options));
  const RoutingId id = NewRoutingId();
  zmq_setsockopt(socket.handle(), ZMQ_ROUTING_ID, id.data(), id.size());
  if (zmq_connect(socket.handle(), endpoint.c_str()) != 0) {
    return ZmqError("cannot connect to \"" + endpoint + "\"");
  }
  return std::make_unique<DealerChannel>(std::move(socket));
}

StatusOr<std::unique_ptr<ServerChannel>> ZmqListen(std::shared_ptr<ZmqContext> context,
                                                   const std::string& endpoint,
                                                   const ZmqOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(Socket socket, Socket::Open(std::move(context), ZMQ_ROUTER, options));
  socket.Set(ZMQ_ROUTER_HANDOVER, 1);
  std::vector<IpcClaim> claims;
  LOCKSTEP_ASSIGN_OR_RETURN(claims.emplace_back(), Bind(socket, endpoint, options.beyond_loopback));
  char resolved[512];
  size_t size = sizeof resolved;
  if (zmq_getsockopt(socket.handle(), ZMQ_LAST_ENDPOINT, resolved, &size) != 0) {
    return ZmqError("cannot ask for the address of \"" + endpoint + "\"");
  }
  if (!options.also_at.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(claims.emplace_back(), Bind(socket, options.also_at, false));
  }
  return std::make_unique<RouterChannel>(std::move(socket), WithPlainIpv4(resolved),
                                         std::move(claims));
}

}  // namespace lockstep::control
