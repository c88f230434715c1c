#include "runtime/control/zmq/zmq_context.h"

#include <zmq.h>

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

std::shared_ptr<ZmqContext> BulkContext(const std::shared_ptr<ZmqContext>& context,
                                        const std::string& endpoint) {
  return endpoint.rfind("inproc://", 0) == 0 ? context : ZmqContext::CreateInBackground();
}

}  // namespace lockstep::control
