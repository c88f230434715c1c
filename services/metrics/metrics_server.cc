#include "services/metrics/metrics_server.h"

#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

namespace lockstep::metrics {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kScheme = "http://";
// Who asks: a Prometheus or two, a kubelet, a person; and whoever asks slowly keeps one of them.
constexpr size_t kThreads = 8;
// Nobody has anything to say but a request line and its headers.
constexpr size_t kMostBodyBytes = 1024;
constexpr auto kPatience = 2s;

// The library's own choice, SO_REUSEPORT, would let two services share a port without a word.
void ReuseAddress(socket_t socket) {
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
}

// The number after the last colon; 0 for *. kInvalidArgument if there is none.
StatusOr<int> PortOf(const std::string& endpoint) {
  const std::string text = endpoint.substr(endpoint.rfind(':') + 1);
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (text == "*" || (is_number && port >= 0 && port <= 65535)) return port;
  return InvalidArgument("\"", endpoint, "\" names no port for metrics; allowed: ", kScheme,
                         "127.0.0.1:PORT");
}

class HttpServer : public MetricsServer {
 public:
  explicit HttpServer(Answers answers) : answers_(std::move(answers)) {
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server_.set_payload_max_length(kMostBodyBytes);
    server_.set_read_timeout(kPatience);
    server_.set_write_timeout(kPatience);
    server_.set_socket_options(ReuseAddress);
    // A connection that is kept open would keep one of the threads.
    server_.set_keep_alive_max_count(1);
    server_.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(answers_.metrics(), "text/plain; version=0.0.4; charset=utf-8");
    });
    Serve("/healthz", answers_.healthy);
    Serve("/readyz", answers_.ready);
  }

  ~HttpServer() override {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }

  Status Listen(const std::string& requested) {
    LOCKSTEP_ASSIGN_OR_RETURN(const int wanted, PortOf(requested));
    const size_t host_bytes = requested.rfind(':') - std::min(kScheme.size(), requested.rfind(':'));
    if (requested.rfind(kScheme, 0) != 0 || host_bytes == 0) {
      return InvalidArgument("\"", requested, "\" is no address for metrics; allowed: ", kScheme,
                             "127.0.0.1:PORT");
    }
    const std::string host = requested.substr(kScheme.size(), host_bytes);
    errno = 0;
    const int port = Bind(host, wanted);
    if (port <= 0) {
      return Unavailable("metrics cannot be served at ", requested, ": ",
                         errno == 0 ? "no such address" : std::strerror(errno));
    }
    endpoint_ = std::string(kScheme) + host + ":" + std::to_string(port);
    thread_ = std::thread([this] {
      server_.listen_after_bind();
      ended_ = true;
    });
    // stop() is for one that runs.
    while (!server_.is_running() && !ended_) std::this_thread::yield();
    return OkStatus();
  }

  const std::string& endpoint() const override { return endpoint_; }

 private:
  // The port, or -1.
  int Bind(const std::string& host, int port) {
    // A resolver wants an IPv6 address without the brackets that URLs put around it.
    const bool bracketed = host.front() == '[' && host.back() == ']';
    const std::string name = bracketed ? host.substr(1, host.size() - 2) : host;
    if (port == 0) return server_.bind_to_any_port(name);
    return server_.bind_to_port(name, port) ? port : -1;
  }
  void Serve(const char* path, const std::function<Status()>& answer) {
    server_.Get(path, [&answer](const httplib::Request&, httplib::Response& response) {
      const Status status = answer();
      response.status = status.ok() ? 200 : 503;
      response.set_content((status.ok() ? "ok" : Message(status)) + "\n", "text/plain");
    });
  }

  const Answers answers_;
  httplib::Server server_;
  std::string endpoint_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace

StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& endpoint,
                                                              Answers answers) {
  auto server = std::make_unique<HttpServer>(std::move(answers));
  LOCKSTEP_RETURN_IF_ERROR(server->Listen(endpoint));
  return server;
}

}  // namespace lockstep::metrics
