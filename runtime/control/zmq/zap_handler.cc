#include "runtime/control/zmq/zap_handler.h"

#include <zmq.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/log.h"
#include "runtime/control/zmq/socket.h"

namespace lockstep::control {
namespace {

using namespace std::chrono_literals;

constexpr char kEndpoint[] = "inproc://zeromq.zap.01";
constexpr char kVersion[] = "1.0";
// How soon a change of an allow list counts.
constexpr std::chrono::milliseconds kLook = 250ms;
// Of those that are turned away, this many are told in the log each minute: whoever knocks and
// knocks must not fill the disk.
constexpr int kToldAMinute = 20;

// What a request has: version, id, domain, address, routing id, mechanism, credentials.
constexpr size_t kRequestFrames = 7;

Status CannotStart() { return ZmqError("cannot check who may come in"); }

// Says it, unless too much was said lately.
void TellTurnedAway(const std::string& address, const Status& why) {
  static std::mutex mutex;
  static Deadline next_minute = Deadline::After(1min);
  static int told = 0;
  std::lock_guard lock(mutex);
  if (next_minute.Expired()) {
    if (told > kToldAMinute) log::Warn(told - kToldAMinute, " more were turned away");
    next_minute = Deadline::After(1min);
    told = 0;
  }
  if (++told <= kToldAMinute) log::Warn("turned away from ", address, ": ", lockstep::Message(why));
}

}  // namespace

StatusOr<std::unique_ptr<ZapHandler>> ZapHandler::Start(void* context) {
  void* const socket = zmq_socket(context, ZMQ_REP);
  if (socket == nullptr) return CannotStart();
  const int millis = static_cast<int>(kLook.count());
  const int none = 0;
  zmq_setsockopt(socket, ZMQ_RCVTIMEO, &millis, sizeof millis);
  zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
  if (zmq_bind(socket, kEndpoint) != 0) {
    const Status status = CannotStart();
    zmq_close(socket);
    return status;
  }
  return std::unique_ptr<ZapHandler>(new ZapHandler(socket));
}

ZapHandler::ZapHandler(void* socket) : socket_(socket), thread_([this] { Run(); }) {}

ZapHandler::~ZapHandler() { thread_.join(); }

std::string ZapHandler::AddDomain(const std::shared_ptr<Gate>& gate) {
  std::lock_guard lock(mutex_);
  std::erase_if(gates_, [](const auto& known) { return known.second.expired(); });
  std::string domain = "gate-" + std::to_string(++last_domain_);
  gates_.emplace(domain, gate);
  return domain;
}

void ZapHandler::Run() {
  Deadline next_look = Deadline::After(kLook);
  while (AnswerNext()) {
    if (!next_look.Expired()) continue;
    RefreshGates();
    next_look = Deadline::After(kLook);
  }
  zmq_close(socket_);
}

void ZapHandler::RefreshGates() {
  std::vector<std::shared_ptr<Gate>> gates;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [domain, gate] : gates_) gates.push_back(gate.lock());
  }
  for (const std::shared_ptr<Gate>& gate : gates) {
    if (gate != nullptr) gate->Refresh();
  }
}

bool ZapHandler::AnswerNext() {
  std::vector<std::string> request;
  bool more = true;
  while (more) {
    ReceivedPart part;
    if (zmq_msg_recv(&part.message, socket_, 0) < 0) {
      // Nobody has asked; or the context ends.
      return zmq_errno() == EAGAIN || zmq_errno() == EINTR;
    }
    request.emplace_back(static_cast<const char*>(zmq_msg_data(&part.message)),
                         zmq_msg_size(&part.message));
    more = Socket::More(part);
  }
  StatusOr<Identity> admitted = InvalidArgument("a request that is none");
  if (request.size() == kRequestFrames && request[0] == kVersion) {
    admitted = Admit(request[2], request[5], request[6], request[3]);
    if (!admitted.ok()) TellTurnedAway(request[3], admitted.status());
  }
  const std::string id = request.size() > 1 ? request[1] : "";
  const std::array<std::string, 6> answer = {kVersion,
                                             id,
                                             admitted.ok() ? "200" : "400",
                                             admitted.ok() ? "OK" : "not let in",
                                             admitted.ok() ? admitted->Text() : "",
                                             /*metadata=*/""};
  for (size_t i = 0; i < answer.size(); ++i) {
    const int flags = i + 1 < answer.size() ? ZMQ_SNDMORE : 0;
    if (zmq_send(socket_, answer[i].data(), answer[i].size(), flags) < 0) {
      return zmq_errno() == EINTR;
    }
  }
  return true;
}

StatusOr<Identity> ZapHandler::Admit(const std::string& domain, const std::string& mechanism,
                                     const std::string& credentials, const std::string& address) {
  std::shared_ptr<Gate> gate;
  {
    std::lock_guard lock(mutex_);
    const auto found = gates_.find(domain);
    if (found != gates_.end()) gate = found->second.lock();
  }
  if (gate == nullptr) return PermissionDenied("nobody is let in here any more");
  if (mechanism != "CURVE" || credentials.size() != kKeyBytes) {
    return PermissionDenied("no key was shown");
  }
  PublicKey key;
  std::copy(credentials.begin(), credentials.end(), key.bytes.begin());
  LOCKSTEP_ASSIGN_OR_RETURN(const Identity identity, gate->Admit(key));
  log::Debug("let in from ", address, ": ", identity.Text());
  return identity;
}

}  // namespace lockstep::control
