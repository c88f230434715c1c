#include "runtime/control/zmq/dealer_channel.h"

#include <zmq.h>

#include <random>

#include "runtime/control/zmq/socket.h"
#include "runtime/control/zmq/tcp_dealer.h"
#include "runtime/control/zmq/zmq_channel.h"

namespace lockstep::control {

RoutingId NewRoutingId() {
  std::random_device random;
  RoutingId id;
  id[0] = 'L';  // ZeroMQ reserves names that begin with a zero byte
  for (size_t i = 1; i < id.size(); ++i) id[i] = static_cast<char>(random());
  return id;
}

StatusOr<Socket> OpenDealer(std::shared_ptr<ZmqContext> context, const ZmqOptions& options,
                            const RoutingId& id) {
  LOCKSTEP_ASSIGN_OR_RETURN(Socket socket, Socket::Open(std::move(context), ZMQ_DEALER, options));
  zmq_setsockopt(socket.handle(), ZMQ_ROUTING_ID, id.data(), id.size());
  return socket;
}

Status ConnectTo(const Socket& socket, const std::string& endpoint) {
  if (zmq_connect(socket.handle(), endpoint.c_str()) == 0) return OkStatus();
  return ZmqError("cannot connect to \"" + endpoint + "\"");
}

Status DealerChannel::Send(const Message& message) {
  for (size_t i = 0; i < message.size(); ++i) {
    zmq_msg_t part;
    FillPart(&part, message[i]);
    LOCKSTEP_RETURN_IF_ERROR(socket_->SendPart(&part, i + 1 < message.size()));
  }
  return OkStatus();
}

bool DealerChannel::Receive(Message* message) {
  while (std::shared_ptr<ReceivedPart> part = socket_->ReceivePart()) {
    message->clear();
    if (socket_->ReceiveFrames(std::move(part), message)) return true;
  }
  return false;
}

StatusOr<std::unique_ptr<ClientChannel>> ZmqConnect(std::shared_ptr<ZmqContext> context,
                                                    const std::string& endpoint,
                                                    const ZmqOptions& options) {
  if (IsForKeys(endpoint)) return TcpDealer::Connect(std::move(context), endpoint, options);
  LOCKSTEP_ASSIGN_OR_RETURN(Socket socket, OpenDealer(std::move(context), options, NewRoutingId()));
  LOCKSTEP_RETURN_IF_ERROR(ConnectTo(socket, endpoint));
  return std::make_unique<DealerChannel>(std::move(socket));
}

}  // namespace lockstep::control
