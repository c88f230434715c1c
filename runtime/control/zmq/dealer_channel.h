// The connecting end over any transport.
// Private to this folder.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "runtime/control/channel.h"
#include "runtime/control/zmq/socket.h"

namespace lockstep::control {

// A DEALER that is not connected yet, with a name of its own.
StatusOr<Socket> OpenDealer(std::shared_ptr<ZmqContext> context, const ZmqOptions& options);
// kInvalidArgument for an endpoint that ZeroMQ does not understand.
Status ConnectTo(const Socket& socket, const std::string& endpoint);

class DealerChannel : public ClientChannel {
 public:
  explicit DealerChannel(Socket socket) : socket_(std::move(socket)), fd_(socket_.wait_fd()) {}

  bool HasInput() override { return socket_.HasInput(); }
  int wait_fd() const override { return fd_; }
  bool drained() const override { return socket_.drained(); }
  Status Send(const Message& message) override;
  bool Receive(Message* message) override;

 protected:
  Socket& socket() { return socket_; }

 private:
  Socket socket_;
  const int fd_;
};

}  // namespace lockstep::control
