#include "services/metrics/metrics_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::metrics {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class MetricsServerTest : public testing::Test {
 protected:
  std::unique_ptr<MetricsServer> Serve(const std::string& endpoint) {
    Answers answers;
    answers.metrics = [] { return "a_metric 1\n"; };
    answers.started = [this] { return started_; };
    answers.healthy = [this] { return healthy_; };
    answers.ready = [this] { return ready_; };
    answers.idle = [this] { return idle_; };
    auto server = MetricsServer::Start(endpoint, answers);
    EXPECT_TRUE(server.ok()) << server.status();
    return server.ok() ? *std::move(server) : nullptr;
  }
  static httplib::Response Get(const MetricsServer& server, const std::string& path) {
    auto result = httplib::Client(server.endpoint()).Get(path);
    EXPECT_TRUE(result) << server.endpoint() << path << ": " << to_string(result.error());
    return result ? result.value() : httplib::Response();
  }

  Status started_;
  Status healthy_;
  Status ready_;
  Status idle_;
};

TEST_F(MetricsServerTest, MetricsAreServedInPrometheusTextFormat) {
  const auto server = Serve("http://127.0.0.1:*");
  ASSERT_NE(server, nullptr);
  EXPECT_THAT(server->endpoint(), StartsWith("http://127.0.0.1:"));
  const httplib::Response response = Get(*server, "/metrics");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "a_metric 1\n");
  EXPECT_EQ(response.get_header_value("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
}

TEST_F(MetricsServerTest, EachQuestionIsAnsweredForItselfWithTheReason) {
  const auto server = Serve("http://localhost:0");
  ASSERT_NE(server, nullptr);
  const std::vector<std::pair<std::string, Status*>> questions = {
      {"/startupz", &started_}, {"/healthz", &healthy_}, {"/readyz", &ready_}, {"/idlez", &idle_}};
  for (const auto& [path, answer] : questions) {
    *answer = Unavailable("because of ", path);
    for (const auto& [asked, _] : questions) {
      const httplib::Response response = Get(*server, asked);
      EXPECT_EQ(response.status, asked == path ? 503 : 200) << asked;
      EXPECT_EQ(response.body, asked == path ? "because of " + path + "\n" : "ok\n");
    }
    *answer = OkStatus();
  }
}

TEST_F(MetricsServerTest, IPv6IsServed) {
  const auto server = Serve("http://[::1]:*");
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(Get(*server, "/healthz").status, 200);
}

TEST_F(MetricsServerTest, NothingElseIsServed) {
  const auto server = Serve("http://127.0.0.1:*");
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(Get(*server, "/").status, 404);
  EXPECT_EQ(Get(*server, "/metrics/../../etc/passwd").status, 404);
  const auto posted =
      httplib::Client(server->endpoint()).Post("/metrics", std::string(1 << 20, 'x'), "text/plain");
  ASSERT_TRUE(posted);
  EXPECT_GE(posted->status, 400);
  EXPECT_EQ(Get(*server, "/metrics").status, 200) << "and the next request is answered";
}

TEST_F(MetricsServerTest, APortIsNeverSharedAndIsFreeAgainAfterwards) {
  auto first = Serve("http://127.0.0.1:*");
  ASSERT_NE(first, nullptr);
  const std::string endpoint = first->endpoint();
  const Status taken = MetricsServer::Start(endpoint, {}).status();
  EXPECT_EQ(taken.code(), StatusCode::kUnavailable) << taken;
  EXPECT_THAT(Message(taken), HasSubstr(endpoint));
  EXPECT_EQ(Get(*first, "/healthz").status, 200);
  first.reset();
  EXPECT_NE(Serve(endpoint), nullptr);
}

TEST_F(MetricsServerTest, WhatIsNoAddressIsRefused) {
  for (const char* endpoint : {"", "127.0.0.1:1", "http://", "http://:80", "http://127.0.0.1",
                               "http://127.0.0.1:", "http://127.0.0.1:65536", "http://a:b",
                               "tcp://127.0.0.1:80", "http"}) {
    EXPECT_EQ(MetricsServer::Start(endpoint, {}).status().code(), StatusCode::kInvalidArgument)
        << endpoint;
  }
}

TEST_F(MetricsServerTest, ManyMayAskAtOnce) {
  const auto server = Serve("http://127.0.0.1:*");
  ASSERT_NE(server, nullptr);
  std::vector<std::thread> askers;
  for (int i = 0; i < 8; ++i) {
    askers.emplace_back([&] {
      for (int j = 0; j < 10; ++j) EXPECT_EQ(Get(*server, "/metrics").body, "a_metric 1\n");
    });
  }
  for (std::thread& asker : askers) asker.join();
}

}  // namespace
}  // namespace lockstep::metrics
