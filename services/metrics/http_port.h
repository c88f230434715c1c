// The connections of the HTTP port, all on one thread that waits for none of them.
//
// The HTTP library has a server of its own, which is not used: there a connection keeps one of a
// few threads until its peer is done, the time-outs begin anew with each byte, and what waits for a
// thread is not bounded. Eight connections that send a byte a second kept everybody else from an
// answer, and an orchestrator that gets none from /healthz kills the service.
//
// Here a slow connection costs a descriptor, and of those there are at most kMostConnections: one
// more cuts off another, first of those that have not asked yet the oldest. Whoever asks at once is
// answered, however many others hang around.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/spare_descriptors.h"
#include "runtime/base/status.h"
#include "services/metrics/http_connection.h"
#include "services/metrics/socket.h"

namespace lockstep::metrics {

// Who asks: a Prometheus or two, a kubelet, a person.
inline constexpr size_t kMostConnections = 32;

// Threads: one of its own, which calls `answer`. Ownership: serves until it is destroyed, which
// takes no longer than an answer, and calls nothing afterwards.
class HttpPort {
 public:
  // `listener` does not block. kResourceExhausted if no descriptor is left.
  static StatusOr<std::unique_ptr<HttpPort>> Start(Socket listener, HttpAnswer answer);
  ~HttpPort();

 private:
  HttpPort(Socket listener, Socket stop, HttpAnswer answer);
  void Run();
  // Waits for something to do. False when this object is destroyed.
  bool Wait();
  void AdvanceAll();
  void AcceptSome();
  // After accept() has failed. False if it is to be tried later.
  bool MakeRoom(int error);
  void CutOneOff();

  const Socket listener_;
  const Socket stop_;  // an eventfd, readable when this object is destroyed
  const HttpAnswer answer_;
  // For a connection while others use up what the process may open. They may be lost to those
  // others, so this helps where the want is short.
  SpareDescriptors spare_;
  Deadline accept_again_ = Deadline::After({});
  std::vector<HttpConnection> connections_;  // the oldest first
  std::vector<bool> has_come_;               // for each, whether there is something to do
  std::thread thread_;
};

}  // namespace lockstep::metrics
