// Connections that this process has left, until they can be closed.
#pragma once

#include <list>
#include <mutex>

#include "runtime/base/deadline.h"
#include "runtime/collective/tcp/socket.h"

namespace lockstep::collective::tcp {

// The kernel throws away what a peer has not read yet if its connection is closed with something in
// it that was not read here. So connections are kept, and read, until the peer has closed them; and
// no longer than some seconds.
//
// Threads: any.
class Departures {
 public:
  ~Departures() { CloseOver(); }
  // Nothing more is sent there.
  void Add(Socket socket);
  // Closes those that are over.
  void CloseOver();

 private:
  struct Departure {
    Socket socket;
    Deadline deadline;
  };
  // Reads what has come. True if the peer has closed it.
  static bool IsClosed(const Socket& socket);

  std::mutex mutex_;
  std::list<Departure> departures_;
};

}  // namespace lockstep::collective::tcp
