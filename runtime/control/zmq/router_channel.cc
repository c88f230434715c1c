// ZmqListen(): the listening end.
#include <sys/stat.h>
#include <zmq.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"

#include "runtime/control/zmq/endpoint.h"
#include "runtime/control/zmq/ipc_claim.h"
#include "runtime/control/zmq/peer_authorizer.h"
#include "runtime/control/zmq/socket.h"
#include "runtime/control/zmq/zmq_channel.h"

namespace lockstep::control {
namespace {

// Connections that a listener has yet to accept; ZeroMQ's own number is 100.
constexpr int kMostConnecting = 4096;

// See ServerChannel::SenderAddress(). ZeroMQ tells "::ffff:10.1.2.3" or "fd00::7"; of a process
// that came by a socket file, "HOST:UID:GID:PID". (An IPv6 address with as many colons has two of
// them in a row.)
std::string AddressOf(const ReceivedPart& part) {
  constexpr std::string_view kMapped = "::ffff:";
  const char* const told = zmq_msg_gets(const_cast<zmq_msg_t*>(&part.message), "Peer-Address");
  if (told == nullptr) return "";
  const std::string address = told;
  if (address.starts_with(kMapped) && address.find('.') != std::string::npos) {
    return address.substr(kMapped.size());
  }
  const size_t user = address.find(':');
  const size_t process = address.rfind(':');
  const bool is_process = std::count(address.begin(), address.end(), ':') == 3 &&
                          address.find("::") == std::string::npos;
  if (!is_process) return address;
  return "process " + address.substr(process + 1) + " of user " +
         address.substr(user + 1, address.find(':', user + 1) - user - 1);
}

class RouterChannel final : public ServerChannel {
 public:
  // `inproc_name`: its endpoint if that is inside this process, else empty.
  RouterChannel(Socket socket, std::string endpoint, IpcClaim claim, std::string inproc_name,
                PeerAuthorizer authorizer)
      : claim_(std::move(claim)),
        inproc_name_(std::move(inproc_name)),
        socket_(std::move(socket)),
        fd_(socket_.wait_fd()),
        endpoint_(std::move(endpoint)),
        authorizer_(std::move(authorizer)) {}
  // A socket is closed by a thread of ZeroMQ's, later; until then names inside this process would
  // stay taken.
  ~RouterChannel() override {
    if (!inproc_name_.empty()) zmq_unbind(socket_.handle(), inproc_name_.c_str());
  }

  bool HasInput() override { return socket_.HasInput(); }
  int wait_fd() const override { return fd_; }
  bool drained() const override { return socket_.drained(); }
  const std::string& endpoint() const override { return endpoint_; }
  const Identity* sender() const override { return authorizer_.current(); }
  std::string SenderAddress() const override { return last_ == nullptr ? "" : AddressOf(*last_); }

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
      if (!Socket::More(*part)) continue;  // no peer can send so little
      std::shared_ptr<ReceivedPart> first = socket_.ReceivePart();
      last_ = first;
      // The name's frame does not always say who has sent it: the next one does.
      const bool may_send = authorizer_.Accept(*first);
      if (socket_.ReceiveFrames(std::move(first), message) && may_send) return true;
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

  const IpcClaim claim_;  // let go of when the socket is closed
  const std::string inproc_name_;
  Socket socket_;
  const int fd_;
  const std::string endpoint_;
  PeerAuthorizer authorizer_;
  std::shared_ptr<ReceivedPart> last_;  // the first of the message that was received last
};

StatusOr<IpcClaim> Bind(const Socket& socket, const std::string& wanted, bool has_gate) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string endpoint, WhereToListen(wanted, has_gate));
  LOCKSTEP_ASSIGN_OR_RETURN(IpcClaim claim, IpcClaim::Take(endpoint));
  // Any user who may write to the socket's file gets in. A mode that is set later would come too
  // late; files that other threads make at this moment are only more private than they need be.
  const mode_t before = umask(0077);
  const absl::Cleanup restore = [before] { umask(before); };
  if (zmq_bind(socket.handle(), endpoint.c_str()) != 0) {
    return ZmqError("cannot listen on \"" + endpoint + "\"");
  }
  claim.Bound();
  return claim;
}

}  // namespace

StatusOr<std::unique_ptr<ServerChannel>> ZmqListen(std::shared_ptr<ZmqContext> context,
                                                   const std::string& endpoint,
                                                   const ZmqOptions& options) {
  const std::shared_ptr<Gate> gate = IsForKeys(endpoint) ? options.gate : nullptr;
  std::string domain;
  if (gate != nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(domain, context->Guard(gate));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(Socket socket, Socket::Open(std::move(context), ZMQ_ROUTER, options));
  socket.Set(ZMQ_ROUTER_HANDOVER, 1);
  // All workers of a large world connect at once when they are welcomed; those for which there is
  // no room try again 100 ms later, or a second later over TCP. The kernel cuts it to somaxconn.
  socket.Set(ZMQ_BACKLOG, kMostConnecting);
  if (gate != nullptr) ListenWithKey(socket, gate->own(), domain);
  LOCKSTEP_ASSIGN_OR_RETURN(IpcClaim claim, Bind(socket, endpoint, gate != nullptr));
  char resolved[512];
  size_t size = sizeof resolved;
  if (zmq_getsockopt(socket.handle(), ZMQ_LAST_ENDPOINT, resolved, &size) != 0) {
    return ZmqError("cannot ask for the address of \"" + endpoint + "\"");
  }
  const bool is_inproc = endpoint.rfind("inproc://", 0) == 0;
  return std::make_unique<RouterChannel>(std::move(socket), WithPlainIpv4(resolved),
                                         std::move(claim), is_inproc ? endpoint : "",
                                         PeerAuthorizer(gate));
}

}  // namespace lockstep::control
