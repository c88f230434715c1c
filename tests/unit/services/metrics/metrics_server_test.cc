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
    auto server = MetricsServer::Start(
        endpoint,
        {[] { return "a_metric 1\n"; }, [this] { return healthy_; }, [this] { return ready_; }});
    EXPECT_TRUE(server.ok()) << server.status();
    return server.ok() ? *std::move(server) : nullptr;
  }
  static httplib::Response Get(const MetricsServer& server, const std::string& path) {
    auto result = httplib::Client(server.endpoint()).Get(path);
    EXPECT_TRUE(result) << server.endpoint() << path << ": " << to_string(result.error());
    return result ? result.value() : httplib::Response();
  }

  Status healthy_;
  Status ready_;
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

TEST_F(MetricsServerTest, HealthAndReadinessAreToldApartWithTheReason) {
  ready_ = Unavailable("rank 3 has not joined");
  const auto server = Serve("http://localhost:0");
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(Get(*server, "/healthz").status, 200);
  const httplib::Response not_ready = Get(*server, "/readyz");
  EXPECT_EQ(not_ready.status, 503);
  EXPECT_THAT(not_ready.body, HasSubstr("rank 3 has not joined"));
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
  EXPECT_EQ(Get(*server, "/metrics").status, 200) << "and whoever asks next is answered";
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
