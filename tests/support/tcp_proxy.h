// A wire that can be cut and held up: forwards tcp connections of this host to another, or to this
// one, and drops or delays them when it is told to.
#pragma once

#include <netinet/in.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::support {

// Threads: safe. Ends its connections when destroyed.
class TcpProxy {
 public:
  // `target` is "tcp://ADDRESS:PORT", of IPv4.
  explicit TcpProxy(const std::string& target);
  ~TcpProxy();

  // "tcp://127.0.0.1:PORT", where it listens.
  const std::string& endpoint() const { return endpoint_; }
  // Drops all connections, with what is on its way in them, before it returns. New ones are taken.
  void Cut() {
    const int cut = ++cuts_;
    while (cuts_done_ < cut) std::this_thread::yield();
  }
  // Nothing gets through for that long; then all that was on its way does.
  void HoldUp(std::chrono::milliseconds time) {
    held_until_ = std::chrono::steady_clock::now() + time;
  }
  // Takes none any more either, as if the wire were gone.
  void Unplug() {
    unplugged_ = true;
    Cut();
  }

 private:
  struct Link {
    int ends[2] = {-1, -1};
  };
  void Run();
  void Accept();
  static bool Forward(int from, int to);

  const sockaddr_in target_;
  int listener_ = -1;
  std::string endpoint_;
  std::atomic<std::chrono::steady_clock::time_point> held_until_{};
  std::atomic<int> cuts_{0};
  std::atomic<int> cuts_done_{0};
  std::atomic<bool> unplugged_{false};
  std::atomic<bool> stopping_{false};
  std::vector<Link> links_;  // the thread's
  std::thread thread_;
};

}  // namespace lockstep::support
