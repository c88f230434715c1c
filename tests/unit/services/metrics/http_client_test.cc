// Servers that are not ours, and some that are none.
#include "services/metrics/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <thread>

#include "services/metrics/http_endpoint.h"

namespace lockstep::metrics {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

Deadline Soon() { return Deadline::After(10s); }

// Accepts one connection, says `answer`, and ends it.
StatusOr<HttpResponse> GetFromWhoSays(const std::string& answer) {
  auto listener = Listen("http://127.0.0.1:*");
  EXPECT_TRUE(listener.ok()) << listener.status();
  std::thread peer([&] {
    Socket socket;
    while (!socket.is_open()) socket = Socket(accept(listener->socket.fd(), nullptr, nullptr));
    char request[4096];
    EXPECT_GT(recv(socket.fd(), request, sizeof request, 0), 0);
    EXPECT_EQ(send(socket.fd(), answer.data(), answer.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(answer.size()));
  });
  auto got = HttpGet(listener->endpoint, "/", Soon());
  peer.join();
  return got;
}

TEST(HttpClientTest, AnswersOfAnotherServerAreUnderstood) {
  httplib::Server server;
  std::string host;
  server.Get("/there", [&](const httplib::Request& request, httplib::Response& response) {
    host = request.get_header_value("Host");
    response.set_content(std::string(100000, 'x'), "text/plain");
  });
  const std::string authority = "127.0.0.1:" + std::to_string(server.bind_to_any_port("127.0.0.1"));
  std::thread serving([&] { server.listen_after_bind(); });
  const auto there = HttpGet("http://" + authority, "/there", Soon());
  const auto absent = HttpGet("http://" + authority, "/absent", Soon());
  server.stop();
  serving.join();
  ASSERT_TRUE(there.ok()) << there.status();
  EXPECT_EQ(there->status, 200);
  EXPECT_EQ(there->body, std::string(100000, 'x'));
  EXPECT_EQ(host, authority);
  ASSERT_TRUE(absent.ok()) << absent.status();
  EXPECT_EQ(absent->status, 404);
}

TEST(HttpClientTest, WhatIsNoAnswerIsNone) {
  for (const char* text : {"", "\r\n\r\n", "220 mail.example ESMTP\r\n", "HTTP/1.1 200 OK\r\n",
                           "HTTP/1.1 xyz OK\r\n\r\n", "HTTP/1.1 2\r\n\r\n",
                           "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1\r\n\r\n"}) {
    const Status status = GetFromWhoSays(text).status();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << text << status;
    EXPECT_THAT(Message(status), HasSubstr("no answer by HTTP")) << text;
  }
  const auto bare = GetFromWhoSays("HTTP/1.1 503\r\n\r\nbusy");
  ASSERT_TRUE(bare.ok()) << bare.status();
  EXPECT_EQ(bare->status, 503);
  EXPECT_EQ(bare->body, "busy");
}

TEST(HttpClientTest, WhoDoesNotAnswerIsNotWaitedForForever) {
  const auto listener = Listen("http://127.0.0.1:*");
  ASSERT_TRUE(listener.ok()) << listener.status();
  const Status status = HttpGet(listener->endpoint, "/", Deadline::After(50ms)).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(status), StartsWith("no answer from " + listener->endpoint + "/: it took"));
}

TEST(HttpClientTest, WhatNamesNobodyIsRefused) {
  for (const char* endpoint : {"", "127.0.0.1:1", "http://127.0.0.1:*", "http://127.0.0.1:0"}) {
    EXPECT_EQ(HttpGet(endpoint, "/", Soon()).status().code(), StatusCode::kInvalidArgument)
        << endpoint;
  }
}

}  // namespace
}  // namespace lockstep::metrics
