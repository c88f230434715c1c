// Answers ZeroMQ's question who may come in (ZAP, https://rfc.zeromq.org/spec/27/), for all
// listeners of one context.
// Private to this folder.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/control/keys/gate.h"

namespace lockstep::control {

// Threads: safe; one of its own, which ends when the context is shut down (zmq_ctx_shutdown): that
// has to come before this object's end.
class ZapHandler {
 public:
  static StatusOr<std::unique_ptr<ZapHandler>> Start(void* context);
  ~ZapHandler();
  ZapHandler(const ZapHandler&) = delete;
  ZapHandler& operator=(const ZapHandler&) = delete;

  // The ZAP domain of a listener, which `gate` decides about as long as it lives.
  std::string AddDomain(const std::shared_ptr<Gate>& gate);

 private:
  explicit ZapHandler(void* socket);
  void Run();
  // The next three end the process if ZeroMQ fails otherwise than by shutting down: no peer could
  // come in any more, and no message would say why.
  // False when the context is shut down.
  bool AnswerNext();
  // The frames of the next request; empty if there is none yet. False as above.
  bool Receive(std::vector<std::string>* request);
  bool Send(const std::string& frame, bool more);
  StatusOr<Identity> Admit(const std::string& domain, const std::string& mechanism,
                           const std::string& credentials, const std::string& address);
  void RefreshGates();

  void* const socket_;
  log::Limit turned_away_;
  std::mutex mutex_;
  uint64_t last_domain_ = 0;
  std::map<std::string, std::weak_ptr<Gate>> gates_;
  std::thread thread_;
};

}  // namespace lockstep::control
