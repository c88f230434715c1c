// Services that a test starts one by one, in an order of its own: a controller and workers as
// threads, for tests of how they find one another.
#pragma once

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/deadline.h"
#include "runtime/client/session.h"
#include "runtime/control/zmq/zmq_context.h"
#include "services/controller/controller.h"
#include "services/local/temporary_directory.h"
#include "services/worker/worker.h"

namespace lockstep::testing {

class ServicesFixture : public ::testing::Test {
 protected:
  static constexpr std::chrono::seconds kLong{30};
  static constexpr char kAnyPort[] = "tcp://127.0.0.1:*";

  void SetUp() override {
    auto directory = local::TemporaryDirectory::Create();
    ASSERT_TRUE(directory.ok()) << directory.status();
    directory_ = std::move(*directory);
  }
  void TearDown() override {
    if (controller_ != nullptr) {
      controller_->RequestStop("the test is over");
      EXPECT_EQ(controller_->Wait(Deadline::After(kLong)), OkStatus());
    }
    workers_.clear();
    controller_.reset();
  }

  std::string IpcEndpoint(const std::string& role) const {
    return "ipc://" + directory_->path() + "/" + role;
  }
  void StartController(const controller::ControllerOptions& options) {
    auto controller = controller::Controller::Start(options, context_);
    ASSERT_TRUE(controller.ok()) << controller.status();
    controller_ = std::move(*controller);
  }
  worker::Worker& StartWorker(const worker::WorkerOptions& options) {
    auto worker = worker::Worker::Start(options, context_);
    EXPECT_TRUE(worker.ok()) << worker.status();
    workers_.push_back(std::move(*worker));
    return *workers_.back();
  }
  // What most workers of such tests have in common.
  static worker::WorkerOptions SmallWorker(int rank) {
    worker::WorkerOptions options;
    options.rank = rank;
    options.arena_bytes = size_t{64} << 20;
    options.join_timeout = kLong;
    return options;
  }
  // The value, or the end of the test program: nothing that follows would make sense.
  template <typename T>
  static T Unwrapped(StatusOr<T> value) {
    if (!value.ok()) {
      ADD_FAILURE() << value.status();
      std::abort();
    }
    return *std::move(value);
  }
  StatusOr<Session> ConnectTo(const std::string& endpoint,
                              std::chrono::milliseconds timeout = kLong) {
    SessionOptions options;
    options.endpoint = endpoint;
    options.connect_timeout = timeout;
    return Session::Connect(options, context_);
  }

  std::unique_ptr<local::TemporaryDirectory> directory_;
  std::shared_ptr<control::ZmqContext> context_ = control::ZmqContext::Create();
  std::unique_ptr<controller::Controller> controller_;
  std::vector<std::unique_ptr<worker::Worker>> workers_;
};

}  // namespace lockstep::testing
