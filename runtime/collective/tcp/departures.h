// Connections that this process has left, until they can be closed.
#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <mutex>

#include "runtime/base/deadline.h"
#include "runtime/collective/tcp/socket.h"

namespace lockstep::collective::tcp {

// The kernel throws away what a peer has not read yet if its connection is closed with something in
// it that was not read here. So connections are kept, and read, until the peer has closed them; and
// no longer than some seconds. Somebody has to look: whoever sends messages, or connects.
//
// Threads: any.
class Departures {
 public:
  // It lasts as long as the process: connections of a world are left when the world is.
  static Departures& OfProcess();

  // Nothing more is sent there.
  void Add(Socket socket);
  // Closes those that are over. Costs nothing where there are none, or somebody has just looked.
  void CloseOver();

 private:
  struct Departure {
    Socket socket;
    Deadline deadline;
  };
  // Reads what has come. True if the peer has closed it.
  static bool IsClosed(const Socket& socket);

  std::atomic<size_t> count_{0};
  std::mutex mutex_;
  Deadline next_look_ = Deadline::After({});
  std::list<Departure> departures_;
};

}  // namespace lockstep::collective::tcp
