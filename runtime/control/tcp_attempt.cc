#include "runtime/control/tcp_attempt.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "runtime/control/input_waiter.h"
#include "runtime/control/local_address.h"

namespace lockstep::control {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const {
    if (list != nullptr) freeaddrinfo(list);
  }
};

}  // namespace

// Looking up a host's name, on a detached thread: name servers that are silent may take a minute.
// Digits are looked up at once.
class TcpAttempt::Resolution {
 public:
  static std::shared_ptr<Resolution> Begin(const std::string& endpoint) {
    auto resolution = std::make_shared<Resolution>();
    std::string host = HostOf(endpoint);
    std::string port = endpoint.substr(endpoint.rfind(':') + 1);
    if (resolution->LookUp(host, port, AI_NUMERICHOST) == 0) return resolution;
    std::thread([resolution, host = std::move(host), port = std::move(port)] {
      resolution->LookUp(host, port, 0);
      resolution->Finish();
    }).detach();
    return resolution;
  }

  // Readable once there is a result; the others are asked then.
  int fd() const { return done_.fd(); }
  int error() const {  // of getaddrinfo
    (void)is_done_.load(std::memory_order_acquire);
    return error_;
  }
  addrinfo* first() const { return found_.get(); }

 private:
  int LookUp(const std::string& host, const std::string& port, int flags) {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags;
    addrinfo* found = nullptr;
    error_ = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
    found_.reset(found);
    if (error_ == 0 && flags == AI_NUMERICHOST) Finish();
    return error_;
  }
  void Finish() {
    // A descriptor that becomes readable orders no memory.
    is_done_.store(true, std::memory_order_release);
    done_.Signal();
  }

  WakeUp done_;
  std::atomic<bool> is_done_{false};
  int error_ = 0;
  std::unique_ptr<addrinfo, FreeAddresses> found_;
};

TcpAttempt::TcpAttempt(std::string endpoint, std::chrono::milliseconds patience)
    : endpoint_(std::move(endpoint)),
      patience_(patience),
      resolution_(Resolution::Begin(endpoint_)),
      deadline_(Deadline::After(patience)) {}

TcpAttempt::~TcpAttempt() { Close(); }

pollfd TcpAttempt::Wait() const {
  if (!resolved_) return {resolution_->fd(), POLLIN, 0};
  return {fd_, POLLOUT, 0};
}

void TcpAttempt::Look(bool has_event) {
  if (!resolved_) return has_event ? TakeAddresses() : Fail("its name is not resolved in time");
  if (!has_event) return ConnectToNext(ETIMEDOUT);
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
  Conclude(error);
}

void TcpAttempt::TakeAddresses() {
  resolved_ = true;
  if (resolution_->error() != 0) {
    has_no_name_ = true;
    return Fail(gai_strerror(resolution_->error()));
  }
  next_ = resolution_->first();
  all_refused_ = true;
  ConnectToNext(ECONNREFUSED);
}

void TcpAttempt::Fail(const std::string& why) {
  obstacle_ = why;
  Close();
}

void TcpAttempt::Conclude(int error) {
  if (error != 0) return ConnectToNext(error);
  obstacle_ = "";  // the connection stays, for TakeConnection()
}

// `error`: why the address before was none.
void TcpAttempt::ConnectToNext(int error) {
  Close();
  all_refused_ = all_refused_ && error == ECONNREFUSED;
  if (next_ == nullptr) return Fail(std::strerror(error));
  const addrinfo& address = *std::exchange(next_, next_->ai_next);
  fd_ = socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  deadline_ = Deadline::After(patience_);
  if (fd_ < 0) return ConnectToNext(errno);
  if (connect(fd_, address.ai_addr, address.ai_addrlen) == 0) return Conclude(0);
  if (errno != EINPROGRESS) ConnectToNext(errno);
}

void TcpAttempt::Close() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

}  // namespace lockstep::control
