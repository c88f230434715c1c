// The end of a ZeroMQ context.
#include "runtime/control/zmq/zmq_context.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <zmq.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <thread>

namespace lockstep::control {
namespace {

using namespace std::chrono_literals;

// As SIGTERM's handler of a service: it makes what waits return with EINTR.
TEST(ZmqContextTest, SignalsDoNotEndTheWaitForItsSockets) {
  struct sigaction nothing {};
  nothing.sa_handler = [](int) {};
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGUSR1, &nothing, &before), 0);

  std::shared_ptr<ZmqContext> context = ZmqContext::Create();
  void* const socket = zmq_socket(context->handle(), ZMQ_DEALER);
  ASSERT_NE(socket, nullptr);
  std::atomic<bool> over = false;
  std::thread ending([&] {
    context.reset();
    over = true;
  });
  for (int i = 0; i < 20; ++i) {
    pthread_kill(ending.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_FALSE(over);
  zmq_close(socket);
  ending.join();
  EXPECT_TRUE(over);
  sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace lockstep::control
