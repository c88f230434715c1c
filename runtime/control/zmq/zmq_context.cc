#include "runtime/control/zmq/zmq_context.h"

#include <zmq.h>

#include <cstdlib>
#include <thread>

#include "runtime/base/thread_priority.h"

namespace lockstep::control {

ZmqContext::ZmqContext() : handle_(zmq_ctx_new()) {}

ZmqContext::~ZmqContext() { zmq_ctx_term(handle_); }

std::shared_ptr<ZmqContext> ZmqContext::CreateInBackground() {
  std::shared_ptr<ZmqContext> context = Create();
  // ZeroMQ starts the I/O threads with the first socket, and a thread has its priority from the one
  // that starts it.
  std::thread([&] {
    GiveWay();
    zmq_close(zmq_socket(context->handle(), ZMQ_DEALER));
  }).join();
  return context;
}

namespace {

// Has the allocator keep memory that large messages were in, up to 32 MiB of it: else it is given
// back to the kernel and zeroed anew for message after message. (glibc: whoever frees a block that
// was mapped for it alone shows that such blocks come and go; see M_MMAP_THRESHOLD in mallopt(3).)
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
