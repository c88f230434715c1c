#include "services/process/health_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "services/metrics/metrics_server.h"

namespace lockstep::process {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class HealthCheckTest : public testing::Test {
 protected:
  HealthCheckTest() {
    metrics::Answers answers;
    answers.healthy = [this] { return healthy_; };
    answers.ready = [] { return Unavailable("not yet"); };
    answers.idle = [this] { return Idle(); };
    auto server = metrics::MetricsServer::Start("http://0.0.0.0:*", answers);
    EXPECT_TRUE(server.ok()) << server.status();
    if (server.ok()) server_ = *std::move(server);
  }

  Status Idle() { return asked_++ < busy_for_ ? Unavailable("open sessions: 2") : OkStatus(); }

  int asked_ = 0;
  int busy_for_ = 0;
  Status healthy_;
  std::unique_ptr<metrics::MetricsServer> server_;
};

TEST_F(HealthCheckTest, AServiceThatIsNotReadyIsHealthyNevertheless) {
  EXPECT_EQ(AskForHealth(server_->endpoint()), OkStatus());
}

TEST_F(HealthCheckTest, WhatIsWrongIsRepeated) {
  healthy_ = Unavailable("its loop stands still");
  const Status status = AskForHealth(server_->endpoint());
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(Message(status), HasSubstr("503"));
  EXPECT_THAT(Message(status), HasSubstr("its loop stands still"));
}

TEST_F(HealthCheckTest, NobodyThereIsNotHealthy) {
  const std::string endpoint = server_->endpoint();
  server_.reset();
  const Status status = AskForHealth(endpoint);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(status), HasSubstr(endpoint + "/healthz"));
}

TEST_F(HealthCheckTest, WhoAwaitsIdlenessAsksUntilThereIsNoSession) {
  busy_for_ = 2;
  EXPECT_EQ(AwaitIdle(server_->endpoint(), 20s), OkStatus());
  EXPECT_EQ(asked_, 3);
}

TEST_F(HealthCheckTest, WhoAwaitsIdlenessInVainIsToldWhatIsThere) {
  busy_for_ = 1000;
  EXPECT_THAT(Message(AwaitIdle(server_->endpoint(), 300ms)), HasSubstr("open sessions: 2"));
}

TEST_F(HealthCheckTest, NobodyIsAwaitedWhoIsNotThere) {
  const std::string endpoint = server_->endpoint();
  server_.reset();
  EXPECT_EQ(AwaitIdle(endpoint, 10min).code(), StatusCode::kUnavailable);
}

TEST(HealthCheckWithoutAPortTest, SaysWhatIsMissing) {
  for (const char* endpoint : {"", "http://127.0.0.1:*", "http://127.0.0.1:0"}) {
    const Status status = AskForHealth(endpoint);
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << endpoint;
    EXPECT_THAT(Message(status), HasSubstr("set metrics_endpoint"));
  }
}

}  // namespace
}  // namespace lockstep::process
