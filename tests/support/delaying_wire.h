// A wire with a length: what goes in at one end comes out at the other after a while, whole and in
// order. For kernels without a queueing discipline that delays.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::support {

// Carries all frames between two network interfaces of this process's network, on a thread of its
// own; nothing else may answer there ("arp off", no addresses). As many are on their way as the
// senders let there be. What is on its way is lost when it is destroyed.
class DelayingWire {
 public:
  DelayingWire(const std::string& one_end, const std::string& other_end,
               std::chrono::milliseconds each_way);
  ~DelayingWire();
  DelayingWire(const DelayingWire&) = delete;
  DelayingWire& operator=(const DelayingWire&) = delete;

 private:
  struct Frame {
    std::chrono::steady_clock::time_point due;
    std::vector<char> bytes;  // behind the header that says what the sender left to its card
  };
  struct End {
    int fd = -1;
    std::deque<Frame> coming;  // what leaves here next, earliest first
  };

  void Run();
  // Takes in what has arrived at an end: it is due at the other.
  void Accept(const End& from, End& to);
  static void Deliver(End& end, std::chrono::steady_clock::time_point now);
  std::chrono::milliseconds UntilNextIsDue() const;

  const std::chrono::milliseconds delay_;
  std::array<End, 2> ends_;
  std::vector<char> buffer_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace lockstep::support
