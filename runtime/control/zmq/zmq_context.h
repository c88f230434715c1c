// A ZeroMQ context: its I/O threads, and the namespace of inproc endpoints.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "runtime/base/status.h"
#include "runtime/control/keys/gate.h"

namespace lockstep::control {

class ZapHandler;

// Threads: safe. Ownership: channels keep their context alive; the last one to go ends it.
class ZmqContext {
 public:
  static std::shared_ptr<ZmqContext> Create() {
    return std::shared_ptr<ZmqContext>(new ZmqContext());
  }
  // For more sockets at a time than the 1,023 that a context usually has.
  static std::shared_ptr<ZmqContext> CreateFor(int sockets);
  // Its I/O threads give way to others (see LowerThreadPriority()).
  static std::shared_ptr<ZmqContext> CreateInBackground();
  ~ZmqContext();
  ZmqContext(const ZmqContext&) = delete;
  ZmqContext& operator=(const ZmqContext&) = delete;

  void* handle() const { return handle_; }

  // The ZAP domain of a listener that lets in whom `gate` admits, as long as that lives.
  // kUnavailable: sockets have run out.
  StatusOr<std::string> Guard(const std::shared_ptr<Gate>& gate);

 private:
  ZmqContext();

  void* const handle_;
  std::mutex mutex_;
  std::unique_ptr<ZapHandler> zap_;  // none until a listener has a gate
};

// The context for bulk data at `endpoint`: one of its own, so that large messages do not keep the
// I/O threads of `context` from small ones. Endpoints of this process (inproc://) are in `context`
// alone.
std::shared_ptr<ZmqContext> BulkContext(const std::shared_ptr<ZmqContext>& context,
                                        const std::string& endpoint);

}  // namespace lockstep::control
