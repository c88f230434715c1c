// A ZeroMQ context: its I/O threads, and the namespace of inproc endpoints.
#pragma once

#include <memory>

namespace lockstep::control {

// Threads: safe. Ownership: channels keep their context alive; the last one to go ends it.
class ZmqContext {
 public:
  static std::shared_ptr<ZmqContext> Create() {
    return std::shared_ptr<ZmqContext>(new ZmqContext());
  }
  ~ZmqContext();
  ZmqContext(const ZmqContext&) = delete;
  ZmqContext& operator=(const ZmqContext&) = delete;

  void* handle() const { return handle_; }

 private:
  ZmqContext();

  void* const handle_;
};

}  // namespace lockstep::control
