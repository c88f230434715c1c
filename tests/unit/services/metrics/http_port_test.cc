// Peers that are slow, idle, or say what no client says.
#include "services/metrics/http_port.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <locale>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "services/metrics/metrics_server.h"

namespace lockstep::metrics {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using Clock = std::chrono::steady_clock;

constexpr char kAskForHealth[] = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";

size_t OpenDescriptors() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                           std::filesystem::directory_iterator()));
}

// A connection that does what a test tells it to.
class Peer {
 public:
  Peer() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{10, 0};
    setsockopt(socket_.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  explicit Peer(const MetricsServer& server) : Peer() { Connect(server); }

  void Connect(const MetricsServer& server) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(
        std::stoi(server.endpoint().substr(server.endpoint().rfind(':') + 1))));
    ASSERT_EQ(connect(socket_.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  bool Send(const std::string& text) const {
    return send(socket_.fd(), text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  // All that comes until the server closes the connection, or 10 s have passed.
  std::string Read() const {
    std::string text;
    char bytes[4096];
    for (ssize_t got; (got = recv(socket_.fd(), bytes, sizeof bytes, 0)) > 0;) {
      text.append(bytes, static_cast<size_t>(got));
    }
    return text;
  }

 private:
  Socket socket_;
};

class HttpPortTest : public testing::Test {
 protected:
  void SetUp() override {
    Answers answers;
    answers.metrics = [this] { return metrics_; };
    answers.healthy = [] { return OkStatus(); };
    auto server = MetricsServer::Start("http://127.0.0.1:*", answers);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::string Ask(const std::string& request) const {
    const Peer peer(*server_);
    EXPECT_TRUE(peer.Send(request));
    return peer.Read();
  }
  void ExpectHealthSoon() const {
    const auto begin = Clock::now();
    auto health = httplib::Client(server_->endpoint()).Get("/healthz");
    // A client that was held up between connecting and asking may have been cut off for later ones.
    while (!health && Clock::now() - begin < 1s) {
      health = httplib::Client(server_->endpoint()).Get("/healthz");
    }
    ASSERT_TRUE(health) << to_string(health.error());
    EXPECT_EQ(health->status, 200);
    EXPECT_LT(Clock::now() - begin, 1s);
  }

  std::string metrics_ = "a_metric 1\n";
  std::unique_ptr<MetricsServer> server_;
};

TEST_F(HttpPortTest, IdleConnectionsKeepNobodyFromAnAnswerAndAreBounded) {
  const size_t before = OpenDescriptors();
  std::vector<Peer> idle;
  for (int i = 0; i < 200; ++i) {
    idle.emplace_back(*server_);
    if (i % 20 == 0) ExpectHealthSoon();
  }
  ExpectHealthSoon();
  EXPECT_LE(OpenDescriptors(), before + idle.size() + kMostConnections + 1);
}

TEST_F(HttpPortTest, SlowConnectionsKeepNobodyFromAnAnswer) {
  std::atomic<bool> ends{false};
  std::thread slow([&] {
    std::vector<Peer> peers;
    for (int i = 0; i < 60; ++i) peers.emplace_back(*server_);
    while (!ends) {
      for (Peer& peer : peers) {
        if (!peer.Send("G")) peer = Peer(*server_);
      }
      std::this_thread::sleep_for(200ms);
    }
  });
  for (int i = 0; i < 30; ++i) {
    ExpectHealthSoon();
    std::this_thread::sleep_for(100ms);
  }
  ends = true;
  slow.join();
}

TEST_F(HttpPortTest, PatienceIsCountedFromTheConnectionNotFromTheLastByte) {
  const auto begin = Clock::now();
  const Peer idle(*server_);
  const Peer slow(*server_);
  while (slow.Send("G") && Clock::now() - begin < 10s) std::this_thread::sleep_for(100ms);
  EXPECT_EQ(slow.Read(), "");
  EXPECT_EQ(idle.Read(), "");
  EXPECT_GE(Clock::now() - begin, kRequestPatience - 100ms);
  EXPECT_LT(Clock::now() - begin, kRequestPatience + 2s);
}

TEST_F(HttpPortTest, WhoDoesNotTakeItsAnswerKeepsNobodyFromHis) {
  metrics_ = std::string(6 << 20, 'x');
  std::vector<Peer> asking;
  for (size_t i = 0; i < kMostConnections; ++i) {
    asking.emplace_back(*server_);
    ASSERT_TRUE(asking.back().Send("GET /metrics HTTP/1.1\r\n\r\n"));
  }
  // However long it takes to make so many answers, they have been made when the next is there.
  EXPECT_THAT(Ask(kAskForHealth), EndsWith("ok\n"));
  for (int i = 0; i < 3; ++i) ExpectHealthSoon();
}

TEST_F(HttpPortTest, AnswerIsGivenWholeHoweverLarge) {
  metrics_ = std::string(16 << 20, 'x') + "end";
  const auto metrics = httplib::Client(server_->endpoint()).Get("/metrics");
  ASSERT_TRUE(metrics) << to_string(metrics.error());
  EXPECT_EQ(metrics->body.size(), metrics_.size());
  EXPECT_THAT(metrics->body, EndsWith("end"));
}

TEST_F(HttpPortTest, ItEndsAtOnceWhileSlowOnesAreConnected) {
  metrics_ = std::string(16 << 20, 'x');
  std::vector<Peer> peers;
  for (int i = 0; i < 40; ++i) {
    peers.emplace_back(*server_);
    peers.back().Send(i % 4 == 0 ? "GET /metrics HTTP/1.1\r\n\r\n" : "GET /met");
  }
  // However long it takes to make so many answers, they have been made when the next is there.
  EXPECT_THAT(Ask(kAskForHealth), EndsWith("ok\n"));
  const auto begin = Clock::now();
  server_.reset();
  EXPECT_LT(Clock::now() - begin, 1s);
}

TEST_F(HttpPortTest, HeadMayComeInPieces) {
  const Peer peer(*server_);
  for (const char* piece : {"GET /hea", "lthz HTTP/1.1\r", "\nHost: x\r\n", "\r", "\n"}) {
    ASSERT_TRUE(peer.Send(piece));
    ExpectHealthSoon();  // it has been read
  }
  EXPECT_THAT(peer.Read(), EndsWith("\r\n\r\nok\n"));
}

TEST_F(HttpPortTest, WhatIsNoProperRequestIsAnsweredSo) {
  const std::string head = Ask("HEAD /metrics HTTP/1.1\r\n\r\n");
  EXPECT_THAT(head, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(head, HasSubstr("Connection: close"));
  EXPECT_THAT(head, EndsWith("\r\n\r\n"));
  const std::string posted = Ask("POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_THAT(posted, StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(posted, HasSubstr("\r\nAllow: GET, HEAD\r\n"));
  EXPECT_THAT(Ask("GET /other HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Ask("GET /metrics HTTP/2.0\r\n\r\n"), StartsWith("HTTP/1.1 505"));
  EXPECT_THAT(Ask("GET /metrics\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Ask("GET  /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Ask("nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Ask("\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Ask(std::string("\0\xff\r\n\r\n", 6)), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Ask("GET /healthz HTTP/1.1\r\nX: " + std::string(kMostHeadBytes, 'x') + "\r\n\r\n"),
              StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(Ask(std::string(8 * kMostHeadBytes, 'x')), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(Ask("GET /" + std::string(9000, 'x') + " HTTP/1.1\r\n\r\n"),
              StartsWith("HTTP/1.1 414"));
  ExpectHealthSoon();
}

TEST_F(HttpPortTest, AnAnswerThatCannotBeMadeSaysWhy) {
  EXPECT_THAT(Ask("GET /readyz HTTP/1.1\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 500"), EndsWith("bad_function_call\n")))
      << "this service was given none";
  ExpectHealthSoon();
}

TEST_F(HttpPortTest, NoLocaleChangesAnAnswer) {
  struct Grouping : std::numpunct<char> {
    char do_thousands_sep() const override { return ','; }
    std::string do_grouping() const override { return "\3"; }
  };
  const std::locale before = std::locale::global(std::locale(std::locale(), new Grouping));
  metrics_ = std::string(5000, 'x');
  EXPECT_THAT(Ask("HEAD /metrics HTTP/1.1\r\n\r\n"), HasSubstr("\r\nContent-Length: 5000\r\n"));
  std::locale::global(before);
}

TEST_F(HttpPortTest, WhatIsAskedMayBeNamedInOtherWays) {
  const char* const lines[] = {"GET /metrics HTTP/1.0", "GET /metrics?name=a HTTP/1.1",
                               "GET http://host:1/metrics HTTP/1.1"};
  for (const char* const line : lines) {
    EXPECT_THAT(Ask(std::string(line) + "\r\n\r\n"), EndsWith("\r\n\r\na_metric 1\n")) << line;
  }
  EXPECT_THAT(Ask("GET http://host HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404"));
}

TEST_F(HttpPortTest, RangesMultiplyNoAnswer) {
  metrics_ = std::string(1 << 20, 'x');
  std::string ranges = "0-";
  for (int i = 0; i < 1000; ++i) ranges += ",0-";
  const std::string answer = Ask("GET /metrics HTTP/1.1\r\nRange: bytes=" + ranges + "\r\n\r\n");
  EXPECT_THAT(answer.substr(0, 20), StartsWith("HTTP/1.1 200"));
  EXPECT_LT(answer.size(), size_t{2} << 20);
}

TEST_F(HttpPortTest, HealthIsToldAlsoWhileNoDescriptorIsLeft) {
  std::vector<Peer> peers(3);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{128, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  std::vector<Socket> hoard;
  for (int fd; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) hoard.emplace_back(fd);
  for (Peer& peer : peers) {
    peer.Connect(*server_);
    EXPECT_TRUE(peer.Send(kAskForHealth));
    EXPECT_THAT(peer.Read(), EndsWith("ok\n"));
  }
  setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace lockstep::metrics
