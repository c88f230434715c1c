#include "services/controller/reach_back.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/control/local_address.h"

namespace lockstep::controller {
namespace {

// Whoever is still interested asks again within this time.
constexpr std::chrono::seconds kForgetAfter{30};

struct FreeAddresses {
  void operator()(addrinfo* list) const {
    if (list != nullptr) freeaddrinfo(list);
  }
};

// Looking up a host's name, on a thread that nobody waits for: name servers that are silent may
// take a minute. Digits are looked up at once.
class Resolution {
 public:
  static std::shared_ptr<Resolution> Begin(const std::string& endpoint) {
    auto resolution = std::make_shared<Resolution>();
    std::string host = control::HostOf(endpoint);
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

  control::WakeUp done_;
  std::atomic<bool> is_done_{false};
  int error_ = 0;
  std::unique_ptr<addrinfo, FreeAddresses> found_;
};

}  // namespace

// Connecting to one endpoint: to each of its host's addresses in turn, until one answers.
class ReachBack::Attempt {
 public:
  Attempt(std::string endpoint, std::chrono::milliseconds patience)
      : endpoint_(std::move(endpoint)),
        patience_(patience),
        resolution_(Resolution::Begin(endpoint_)),
        deadline_(Deadline::After(patience)) {}
  ~Attempt() { Close(); }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  const std::string& endpoint() const { return endpoint_; }
  pollfd Wait() const {
    if (!resolved_) return {resolution_->fd(), POLLIN, 0};
    return {fd_, POLLOUT, 0};
  }
  Deadline deadline() const { return deadline_; }
  // See Known.
  const std::optional<std::string>& obstacle() const { return obstacle_; }

  // What it waited for has happened, or the deadline has passed.
  void Look(bool has_event) {
    if (!resolved_) return has_event ? TakeAddresses() : Fail("its name is not resolved in time");
    if (!has_event) return ConnectToNext(ETIMEDOUT);
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
    Conclude(error);
  }

 private:
  void TakeAddresses() {
    resolved_ = true;
    if (resolution_->error() != 0) return Fail(gai_strerror(resolution_->error()));
    next_ = resolution_->first();
    ConnectToNext(0);
  }

  void Fail(const std::string& why) {
    obstacle_ = why;
    Close();
  }

  void Conclude(int error) {
    if (error != 0) return ConnectToNext(error);
    obstacle_ = "";
    Close();
  }

  // `error`: why the address before was none.
  void ConnectToNext(int error) {
    Close();
    if (next_ == nullptr) return Fail(std::strerror(error));
    const addrinfo& address = *std::exchange(next_, next_->ai_next);
    fd_ = socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    deadline_ = Deadline::After(patience_);
    if (fd_ < 0) return ConnectToNext(errno);
    if (connect(fd_, address.ai_addr, address.ai_addrlen) == 0) return Conclude(0);
    if (errno != EINPROGRESS) ConnectToNext(errno);
  }

  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

  const std::string endpoint_;
  const std::chrono::milliseconds patience_;
  const std::shared_ptr<Resolution> resolution_;
  bool resolved_ = false;
  addrinfo* next_ = nullptr;
  int fd_ = -1;
  Deadline deadline_;
  std::optional<std::string> obstacle_;
};

ReachBack::ReachBack(std::function<void()> on_result, std::chrono::milliseconds patience)
    : on_result_(std::move(on_result)), patience_(patience), thread_([this] { Run(); }) {}

ReachBack::~ReachBack() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_up_.Signal();
  thread_.join();
}

std::optional<Status> ReachBack::Ask(const std::string& endpoint) {
  if (control::HostOf(endpoint).empty()) return OkStatus();
  std::lock_guard lock(mutex_);
  Known& known = known_[endpoint];
  known.asked = Deadline::Clock::now();
  const std::optional<std::string> obstacle = known.obstacle;
  if (obstacle.has_value() && obstacle->empty()) {
    known_.erase(endpoint);
    return OkStatus();
  }
  if (!std::exchange(known.being_tried, true)) {
    wanted_.push_back(endpoint);
    wake_up_.Signal();
  }
  if (!obstacle.has_value()) return std::nullopt;
  return Unavailable(endpoint, " does not answer: ", *obstacle);
}

std::optional<std::deque<std::string>> ReachBack::TakeWanted() {
  std::lock_guard lock(mutex_);
  wake_up_.Clear();
  if (stopping_) return std::nullopt;
  const auto now = Deadline::Clock::now();
  std::erase_if(known_, [&](const auto& entry) {
    return !entry.second.being_tried && now - entry.second.asked > kForgetAfter;
  });
  return std::exchange(wanted_, std::deque<std::string>());
}

void ReachBack::Finish(const std::string& endpoint, const std::string& obstacle) {
  {
    std::lock_guard lock(mutex_);
    Known& known = known_[endpoint];
    known.being_tried = false;
    known.obstacle = obstacle;
  }
  on_result_();
}

void ReachBack::Run() {
  std::list<Attempt> attempts;
  std::vector<pollfd> waits;
  while (std::optional<std::deque<std::string>> wanted = TakeWanted()) {
    for (std::string& endpoint : *wanted) attempts.emplace_back(std::move(endpoint), patience_);
    waits.assign(1, {wake_up_.fd(), POLLIN, 0});
    int wait_ms = -1;
    for (auto it = attempts.begin(); it != attempts.end();) {
      if (it->obstacle().has_value()) {
        Finish(it->endpoint(), *it->obstacle());
        it = attempts.erase(it);
        continue;
      }
      waits.push_back(it->Wait());
      const int left = it->deadline().RemainingMillis();
      wait_ms = wait_ms < 0 ? left : std::min(wait_ms, left);
      ++it;
    }
    poll(waits.data(), waits.size(), wait_ms);
    auto wait = std::next(waits.begin());
    for (Attempt& attempt : attempts) {
      const bool has_event = (wait++)->revents != 0;
      if (has_event || attempt.deadline().Expired()) attempt.Look(has_event);
    }
  }
}

}  // namespace lockstep::controller
