// One connection of the HTTP port, which answers one request.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "runtime/base/deadline.h"
#include "services/metrics/socket.h"

namespace lockstep::metrics {

// From the head of a request (its line and headers, and the empty line behind them, unless the peer
// sent no more) to the whole answer; nothing: none is sent.
using HttpAnswer = std::function<std::string(const std::string& head)>;

// Nobody has anything to say but a request line and its headers.
inline constexpr size_t kMostHeadBytes = 16 << 10;
// From the connection to the end of the head, however many bytes come meanwhile.
inline constexpr std::chrono::seconds kRequestPatience{2};
// From there until the peer has taken all of the answer: as long as Prometheus waits by itself.
inline constexpr std::chrono::seconds kAnswerPatience{10};

// Threads: one at a time. It never waits: whoever has it does, for what it wants.
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
  bool PassOver();

  Socket socket_;
  Phase phase_ = Phase::kListening;
  Deadline deadline_ = Deadline::After(kRequestPatience);
  std::string head_;
  std::string answer_;
  size_t sent_bytes_ = 0;
};

}  // namespace lockstep::metrics
