#include "runtime/control/zmq/zap_handler.h"

#include <zmq.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
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
// What a request has: version, id, domain, address, routing id, mechanism, credentials.
constexpr size_t kRequestFrames = 7;

[[noreturn]] void EndProcess() {
  log::Error(lockstep::Message(
      ZmqError("it cannot be checked any more who may come in; the process ends")));
  std::abort();
}

Status CannotStart() { return ZmqError("cannot check who may come in"); }

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

bool ZapHandler::Receive(std::vector<std::string>* request) {
  for (bool more = true; more;) {
    ReceivedPart part;
    if (zmq_msg_recv(&part.message, socket_, 0) >= 0) {
      request->emplace_back(static_cast<const char*>(zmq_msg_data(&part.message)),
                            zmq_msg_size(&part.message));
      more = Socket::More(part);
    } else if (zmq_errno() == ETERM) {
      return false;
    } else if (zmq_errno() == EAGAIN && request->empty()) {
      return true;  // no request has come
    } else if (zmq_errno() != EINTR) {
      EndProcess();
    }
  }
  return true;
}

bool ZapHandler::Send(const std::string& frame, bool more) {
  while (zmq_send(socket_, frame.data(), frame.size(), more ? ZMQ_SNDMORE : 0) < 0) {
    if (zmq_errno() == ETERM) return false;
    if (zmq_errno() != EINTR) EndProcess();
  }
  return true;
}

bool ZapHandler::AnswerNext() {
  std::vector<std::string> request;
  if (!Receive(&request)) return false;
  if (request.empty()) return true;
  StatusOr<Identity> admitted = InvalidArgument("a request that is none");
  if (request.size() == kRequestFrames && request[0] == kVersion) {
    admitted = Admit(request[2], request[5], request[6], request[3]);
    if (!admitted.ok()) {
      turned_away_.Warn("turned away from ", request[3], ": ",
                        lockstep::Message(admitted.status()));
    }
  }
  const std::string id = request.size() > 1 ? request[1] : "";
  const std::array<std::string, 6> answer = {kVersion,
                                             id,
                                             admitted.ok() ? "200" : "400",
                                             admitted.ok() ? "OK" : "not let in",
                                             admitted.ok() ? admitted->Text() : "",
                                             /*metadata=*/""};
  for (size_t i = 0; i < answer.size(); ++i) {
    if (!Send(answer[i], i + 1 < answer.size())) return false;
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
  if (gate == nullptr) return PermissionDenied("no peer is let in here any more");
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
