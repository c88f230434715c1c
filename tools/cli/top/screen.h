// A terminal's other screen, to draw on: what was on the first one is there again afterwards.
//
// The few sequences that it takes are those that every terminal of today knows (ECMA-48, and
// xterm's private modes 25, 7 and 1049), so there is no library behind it.
#pragma once

#include <termios.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"

namespace lockstep::cli {

// Threads: one. While it lives, keys are not echoed; a resize, and ^Z, are noticed in Wait() alone.
class Screen {
 public:
  enum class Event {
    kTime,
    kQuit,
    kUp,
    kDown,
    kPageUp,
    kPageDown,
    kAll,
    kGroups,
    kResize,
    kInterrupt
  };

  // On standard output. kFailedPrecondition: that is no terminal, or one that cannot do it. To be
  // made before other threads are started.
  static StatusOr<std::unique_ptr<Screen>> Open();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Columns and lines, as they are now.
  int width() const;
  int height() const;

  // From the top; lines that are too long are cut by the terminal.
  void Draw(const std::vector<std::string>& lines);

  // Until something happens; kTime: nothing has until the deadline. A readable `interrupt_fd` is
  // kInterrupt.
  Event Wait(int interrupt_fd, Deadline deadline);

 private:
  explicit Screen(int signal_fd);

  void Enter();
  void Leave();
  // Gives the terminal back, stops as ^Z does, and goes on when the process is continued.
  void Suspend();
  Event ReadKey();

  const int signal_fd_;
  bool has_keys_ = false;  // standard input is a terminal, too
  termios before_ = {};
};

}  // namespace lockstep::cli
