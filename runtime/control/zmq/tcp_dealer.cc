#include "runtime/control/zmq/tcp_dealer.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <zmq.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/control/zmq/socket.h"

namespace lockstep::control {
namespace {

using namespace std::chrono_literals;

// A peer that is turned away asks again this often: an operator may be adding its key now.
constexpr std::chrono::milliseconds kPause = 1s;
// Of several keys that the listener may have, the next one is tried at once.
constexpr std::chrono::milliseconds kNextKeyPause = 1ms;
// Messages that wait to be let in; of more, none are sent again.
constexpr size_t kMostNotTaken = 1024;
constexpr size_t kMostNotTakenBytes = size_t{64} << 20;
// One look at the handshakes for so many at the messages.
constexpr unsigned kLookEvery = 16;

// ThreadSanitizer does not see ZeroMQ close a descriptor, so it must not see us use one either: it
// would take the code that gets the number next for its user.
int AddUnseen(int all_fd, int fd, epoll_event* event) {
#ifdef __SANITIZE_THREAD__
  return static_cast<int>(syscall(SYS_epoll_ctl, all_fd, EPOLL_CTL_ADD, fd, event));
#else
  return epoll_ctl(all_fd, EPOLL_CTL_ADD, fd, event);
#endif
}

Status Add(int all_fd, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (AddUnseen(all_fd, fd, &event) == 0) return OkStatus();
  return Unavailable("cannot wait for connections: ", strerror(errno));
}

}  // namespace

StatusOr<std::unique_ptr<ClientChannel>> TcpDealer::Connect(std::shared_ptr<ZmqContext> context,
                                                            const std::string& endpoint,
                                                            const ZmqOptions& options) {
  const RoutingId id = NewRoutingId();
  LOCKSTEP_ASSIGN_OR_RETURN(Socket socket, OpenDealer(context, options, id));
  std::unique_ptr<TcpDealer> dealer(
      new TcpDealer(std::move(socket), std::move(context), endpoint, options, id));
  LOCKSTEP_RETURN_IF_ERROR(dealer->Start());
  return dealer;
}

TcpDealer::TcpDealer(Socket socket, std::shared_ptr<ZmqContext> context, std::string endpoint,
                     const ZmqOptions& options, const RoutingId& id)
    : DealerChannel(std::move(socket)),
      context_(std::move(context)),
      endpoint_(std::move(endpoint)),
      options_(options),
      id_(id),
      keeps_(options.keeps_unsent) {}

TcpDealer::~TcpDealer() {
  handshakes_.reset();
  if (timer_fd_ >= 0) close(timer_fd_);
  if (all_fd_ >= 0) close(all_fd_);
}

Status TcpDealer::Start() {
  all_fd_ = epoll_create1(EPOLL_CLOEXEC);
  timer_fd_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (all_fd_ < 0 || timer_fd_ < 0) {
    return Unavailable("cannot wait for connections: ", strerror(errno));
  }
  LOCKSTEP_RETURN_IF_ERROR(Add(all_fd_, timer_fd_));
  LOCKSTEP_RETURN_IF_ERROR(Attempt());
  NoteHandshakes();
  return OkStatus();
}

Status TcpDealer::Renew() {
  LOCKSTEP_ASSIGN_OR_RETURN(Socket socket, OpenDealer(context_, options_, id_));
  handshakes_.reset();
  // What it has not sent is sent by the next one.
  this->socket().Set(ZMQ_LINGER, 0);
  Use(std::move(socket));
  return OkStatus();
}

Status TcpDealer::Attempt() {
  LOCKSTEP_ASSIGN_OR_RETURN(Handshakes handshakes, Handshakes::Watch(context_, socket()));
  handshakes_.emplace(std::move(handshakes));
  // Descriptors leave this set when they are closed.
  LOCKSTEP_RETURN_IF_ERROR(Add(all_fd_, DealerChannel::wait_fd()));
  LOCKSTEP_RETURN_IF_ERROR(Add(all_fd_, handshakes_->wait_fd()));
  LOCKSTEP_RETURN_IF_ERROR(ShowKeys());
  return ConnectTo(socket(), endpoint_);
}

Status TcpDealer::ShowKeys() {
  if (!options_.credentials) return OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(const Credentials credentials, options_.credentials());
  listeners_ = credentials.listeners.size();
  if (listeners_ == 0) return InvalidArgument("no key of ", endpoint_, " is known");
  shown_ = credentials.own;
  expected_ = credentials.listeners[attempts_ % listeners_];
  ConnectWithKey(socket(), shown_, expected_);
  return OkStatus();
}

bool TcpDealer::HasInput() {
  LookSometimes();
  return DealerChannel::HasInput() || has_news_;
}

bool TcpDealer::Receive(Message* message) {
  LookSometimes();
  has_news_ = false;
  const bool received = DealerChannel::Receive(message);
  // The listener has let us in, then.
  if (received && !connected_) Look();
  return received;
}

Status TcpDealer::Send(const Message& message) {
  if (connected_) return DealerChannel::Send(message);
  Look();
  if (connected_) return DealerChannel::Send(message);
  Keep(message);
  // ZeroMQ keeps it for the connection that it is making, and does not take it if it makes none:
  // then it waits here for the next attempt.
  const Status sent = DealerChannel::Send(message);
  if (sent.ok() || keeps_) return OkStatus();
  return trouble_.ok() ? sent : trouble_;
}

void TcpDealer::Keep(const Message& message) {
  if (!keeps_) return;
  for (const Frame& frame : message) not_taken_bytes_ += frame.size();
  not_taken_.push_back(message);
  if (not_taken_.size() <= kMostNotTaken && not_taken_bytes_ <= kMostNotTakenBytes) return;
  // A part would be worse than nothing: what comes after it would be out of order.
  Forget();
  keeps_ = false;
}

void TcpDealer::Forget() {
  not_taken_.clear();
  not_taken_bytes_ = 0;
}

void TcpDealer::LookSometimes() {
  if (++looks_ % kLookEvery == 0) Look();
}

void TcpDealer::Look() {
  NoteHandshakes();
  uint64_t expirations = 0;
  if (will_try_again_ && read(timer_fd_, &expirations, sizeof expirations) > 0) {
    ConnectAgain();
    NoteHandshakes();
  }
}

// To the last: only what comes after that makes wait_fd() readable.
void TcpDealer::NoteHandshakes() {
  while (handshakes_.has_value()) {
    const std::optional<Handshake> handshake = handshakes_->Next();
    if (!handshake.has_value()) return;
    Note(*handshake);
  }
}

void TcpDealer::Note(Handshake handshake) {
  switch (handshake) {
    case Handshake::kSucceeded:
      connected_ = true;
      trouble_ = OkStatus();
      Forget();
      keeps_ = options_.keeps_unsent;
      return;
    case Handshake::kEnded:
      if (connected_) {
        ++interruptions_;
        has_news_ = true;
      }
      connected_ = false;
      return;
    case Handshake::kTurnedAway:
      trouble_ = PermissionDenied(
          endpoint_, " does not let the key ", shown_.public_key.Text(),
          " in: it is not among its allowed keys, or not for this role; its operator adds keys "
          "with `lockstep keys allow`");
      break;
    case Handshake::kOtherListener:
      trouble_ =
          Unavailable("the listener at ", endpoint_, " does not have the key ", expected_.Text(),
                      ", by which it is known here: it has a new one, or another program has taken "
                      "its place");
      break;
    case Handshake::kBrokenOff:
      trouble_ = Unavailable("the listener at ", endpoint_,
                             " has ended the connection while it was made: it was stopping or had "
                             "no time, or it does not have the key ",
                             expected_.Text(), ", by which it is known here");
      break;
    case Handshake::kMismatch:
      trouble_ =
          options_.credentials
              ? PermissionDenied("the listener at ", endpoint_,
                                 " uses no keys: nothing is said to it without (leave the keys out "
                                 "to do so all the same)")
              : PermissionDenied(endpoint_,
                                 " asks for keys: give one's own and the controller's public key");
      break;
  }
  connected_ = false;
  if (options_.credentials) TryAgainAfter(attempts_ + 1 < listeners_ ? kNextKeyPause : kPause);
}

void TcpDealer::TryAgainAfter(std::chrono::milliseconds pause) {
  if (will_try_again_) return;
  will_try_again_ = true;
  itimerspec when{};
  when.it_value.tv_sec = pause.count() / 1000;
  when.it_value.tv_nsec = pause.count() % 1000 * 1'000'000;
  timerfd_settime(timer_fd_, 0, &when, nullptr);
}

void TcpDealer::ConnectAgain() {
  will_try_again_ = false;
  if (connected_) return;
  ++attempts_;
  Status status = Renew();
  if (status.ok()) status = Attempt();
  if (!status.ok()) {
    trouble_ = status;
    TryAgainAfter(kPause);
    return;
  }
  for (const Message& message : not_taken_) (void)DealerChannel::Send(message);
}

}  // namespace lockstep::control
