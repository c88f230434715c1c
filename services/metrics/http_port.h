// The connections of the HTTP port, all on one thread that waits for none of them.
//
// In servers of libraries a connection keeps one of a few threads until its peer is done, the
// time-outs begin anew with each byte, and what waits for a thread is not bounded. Eight
// connections that sent a byte a second kept all others from an answer, and an orchestrator that
// gets none from /healthz kills the service.
//
// Here a slow connection costs a descriptor, and of those there are at most kMostConnections: one
// more cuts off another, first of those that have not asked yet the oldest. A request that comes
// at once is answered, however many slow connections there are.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/resources.h"
#include "runtime/base/status.h"
#include "services/metrics/http_endpoint.h"

namespace lockstep::metrics {

// From the head of a request (its line and headers, and the empty line behind them, unless the peer
// sent no more) to the whole answer; nothing: none is sent.
using HttpAnswer = std::function<std::string(const std::string& head)>;

// A request is its line and its headers.
inline constexpr size_t kMostHeadBytes = 16 << 10;
// From the connection to the end of the head, however many bytes come meanwhile.
inline constexpr std::chrono::seconds kRequestPatience{2};
// From there until the peer has taken all of the answer: as long as Prometheus waits by itself.
inline constexpr std::chrono::seconds kAnswerPatience{10};

// One connection, which answers one request.
//
// Threads: one at a time. It never waits: its owner does, for events().
class HttpConnection {
 public:
  // The sooner, the sooner it is cut off for another: nothing is lost with one that was answered,
  // little with one that has not asked.
  enum class Phase { kAnswered, kListening, kAnswering };

  // `socket` does not block.
  explicit HttpConnection(Socket socket) : socket_(std::move(socket)) {}

  // Does what can be done at once. False: it is over.
  bool Advance(const HttpAnswer& answer);

  int fd() const { return socket_.fd(); }
  // What poll() is to look for.
  short events() const;
  // When it is over in any case.
  Deadline deadline() const { return deadline_; }
  Phase phase() const { return phase_; }

 private:
  bool Receive(const HttpAnswer& answer);
  bool Send();
  bool DiscardInput();

  Socket socket_;
  Phase phase_ = Phase::kListening;
  Deadline deadline_ = Deadline::After(kRequestPatience);
  std::string head_;
  std::string answer_;
  size_t sent_bytes_ = 0;
};

// What asks: a Prometheus or two, a kubelet, a person.
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
  void DropConnection();

  const Socket listener_;
  const Socket stop_;  // an eventfd, readable when this object is destroyed
  const HttpAnswer answer_;
  // For a connection while others use up what the process may open. They may be lost to those
  // others, so this helps where the want is short.
  DescriptorReserve spare_;
  Deadline accept_again_ = Deadline::After({});
  std::vector<HttpConnection> connections_;  // the oldest first
  std::vector<bool> has_event_;              // for each, whether there is something to do
  std::thread thread_;
};

}  // namespace lockstep::metrics
