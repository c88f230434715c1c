// The connecting end over any transport.
// Private to this folder.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/control/channel.h"
#include "runtime/control/zmq/socket.h"

namespace lockstep::control {

// A name of our own choice, so that a peer keeps it when its connection is made anew.
using RoutingId = std::array<char, 17>;
RoutingId NewRoutingId();

// A DEALER of this name that is not connected yet.
StatusOr<Socket> OpenDealer(std::shared_ptr<ZmqContext> context, const ZmqOptions& options,
                            const RoutingId& id);
// kInvalidArgument for an endpoint that ZeroMQ does not understand.
Status ConnectTo(const Socket& socket, const std::string& endpoint);

class DealerChannel : public ClientChannel {
 public:
  explicit DealerChannel(Socket socket) { Use(std::move(socket)); }

  bool HasInput() override { return socket_->HasInput(); }
  int wait_fd() const override { return fd_; }
  bool drained() const override { return socket_->drained(); }
  Status Send(const Message& message) override;
  bool Receive(Message* message) override;

 protected:
  Socket& socket() { return *socket_; }
  // Closes the one that it has had.
  void Use(Socket socket) {
    socket_.emplace(std::move(socket));
    fd_ = socket_->wait_fd();
  }

 private:
  std::optional<Socket> socket_;
  int fd_ = -1;
};

}  // namespace lockstep::control
