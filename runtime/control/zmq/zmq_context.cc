#include "runtime/control/zmq/zmq_context.h"

#include <zmq.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <thread>

#include "runtime/base/resources.h"
#include "runtime/control/zmq/zap_handler.h"

namespace lockstep::control {

ZmqContext::ZmqContext() : handle_(zmq_ctx_new()) {}

ZmqContext::~ZmqContext() {
  if (zap_ != nullptr) {
    // Ends its wait. What other sockets still have to send is sent all the same.
    zmq_ctx_shutdown(handle_);
    zap_.reset();
  }
  // A signal ends the wait for its threads, which then have yet to be joined.
  while (zmq_ctx_term(handle_) != 0 && zmq_errno() == EINTR) {
  }
}

StatusOr<std::string> ZmqContext::Guard(const std::shared_ptr<Gate>& gate) {
  std::lock_guard lock(mutex_);
  if (zap_ == nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(zap_, ZapHandler::Start(handle_));
  }
  return zap_->AddDomain(gate);
}

std::shared_ptr<ZmqContext> ZmqContext::CreateFor(int sockets) {
  std::shared_ptr<ZmqContext> context = Create();
  const int limit = zmq_ctx_get(context->handle(), ZMQ_SOCKET_LIMIT);
  const int usual = zmq_ctx_get(context->handle(), ZMQ_MAX_SOCKETS);
  zmq_ctx_set(context->handle(), ZMQ_MAX_SOCKETS, std::clamp(sockets, usual, limit));
  return context;
}

std::shared_ptr<ZmqContext> ZmqContext::CreateInBackground() {
  std::shared_ptr<ZmqContext> context = Create();
  // ZeroMQ starts the I/O threads with the first socket, and a thread has its priority from the one
  // that starts it.
  std::thread([&] {
    LowerThreadPriority();
    zmq_close(zmq_socket(context->handle(), ZMQ_DEALER));
  }).join();
  return context;
}

namespace {

// Has the allocator keep memory that large messages were in, up to 32 MiB of it: else it is given
// back to the kernel and zeroed anew for message after message. (glibc: freeing a block that was
// mapped for it alone shows that such blocks come and go; see M_MMAP_THRESHOLD in mallopt(3).)
void KeepMemoryOfMessages() {
  constexpr size_t kBytes = size_t{16} << 20;
  void* volatile block = std::malloc(kBytes);  // volatile: it must not be optimised away
  std::free(block);
}

}  // namespace

std::shared_ptr<ZmqContext> BulkContext(const std::shared_ptr<ZmqContext>& context,
                                        const std::string& endpoint) {
  if (endpoint.rfind("inproc://", 0) == 0) return context;
  KeepMemoryOfMessages();
  return ZmqContext::CreateInBackground();
}

}  // namespace lockstep::control
