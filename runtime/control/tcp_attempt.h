// Whether a process listens at a tcp endpoint.
#pragma once

#include <netdb.h>
#include <poll.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/deadline.h"

namespace lockstep::control {

// Connecting to one endpoint, and no more: to each of its host's addresses in turn, until one
// answers. Nothing is sent. It never waits: its owner does, for what it wants.
//
// Threads: one at a time. A name is looked up on a thread that is not waited for.
class TcpAttempt {
 public:
  // `endpoint` is "tcp://HOST:PORT". Each of the host's addresses is given `patience`, and so is
  // the server that knows its name.
  TcpAttempt(std::string endpoint, std::chrono::milliseconds patience);
  ~TcpAttempt();
  TcpAttempt(const TcpAttempt&) = delete;
  TcpAttempt& operator=(const TcpAttempt&) = delete;

  const std::string& endpoint() const { return endpoint_; }
  // What poll() is to look for, and until when; of no meaning once there is a result.
  pollfd Wait() const;
  Deadline deadline() const { return deadline_; }
  // What it waited for has happened, or the deadline has passed.
  void Look(bool has_event);
  // What kept it from being reached, empty if nothing did; none: that is not known yet. Text, for
  // two threads may hold it: copies of a Status share their contents, in a library whose locking
  // TSan does not see.
  const std::optional<std::string>& obstacle() const { return obstacle_; }
  // Of an obstacle: no address is known for the host; or at each of them nothing listens.
  bool has_no_name() const { return has_no_name_; }
  bool is_refused() const { return obstacle_.has_value() && !obstacle_->empty() && all_refused_; }
  // The connection; once, and only if nothing kept it from being made. The caller closes it.
  int TakeConnection() { return std::exchange(fd_, -1); }

 private:
  class Resolution;

  void TakeAddresses();
  void Fail(const std::string& why);
  void Conclude(int error);
  void ConnectToNext(int error);
  void Close();

  const std::string endpoint_;
  const std::chrono::milliseconds patience_;
  const std::shared_ptr<Resolution> resolution_;
  bool resolved_ = false;
  bool has_no_name_ = false;
  bool all_refused_ = false;  // by all addresses so far, of which there is one at least
  addrinfo* next_ = nullptr;
  int fd_ = -1;
  Deadline deadline_;
  std::optional<std::string> obstacle_;
};

}  // namespace lockstep::control
