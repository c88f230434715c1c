#include "services/metrics/metrics_server.h"

#include <httplib.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "services/metrics/http_port.h"

namespace lockstep::metrics {
namespace {

// No request has a body.
constexpr size_t kMostBodyBytes = 1024;

// Lets the library read a request from one text and write the answer to another.
class TextStream final : public httplib::Stream {
 public:
  explicit TextStream(const std::string& request) : request_(request) {}

  std::string TakeAnswer() { return std::move(answer_); }

  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  ssize_t read(char* bytes, size_t size) override {
    const size_t count = std::min(size, request_.size() - read_bytes_);
    std::memcpy(bytes, request_.data() + read_bytes_, count);
    read_bytes_ += count;
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* bytes, size_t size) override {
    answer_.append(bytes, size);
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  void get_local_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  socket_t socket() const override { return INVALID_SOCKET; }

 private:
  const std::string& request_;
  size_t read_bytes_ = 0;
  std::string answer_;
};

// The library's part: from the text of a request to that of its answer. It never listens.
class Responder final : public httplib::Server {
 public:
  explicit Responder(Answers answers) : answers_(std::move(answers)) {
    set_payload_max_length(kMostBodyBytes);
    Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(answers_.metrics(), "text/plain; version=0.0.4; charset=utf-8");
    });
    Serve("/startupz", answers_.started);
    Serve("/healthz", answers_.healthy);
    Serve("/readyz", answers_.ready);
    Serve("/idlez", answers_.idle);
  }

  // Nothing if there is no memory for one.
  std::string Answer(const std::string& head) {
    // All of it, always: one header can name a thousand ranges, and the whole text in each.
    const auto drop_ranges = [](httplib::Request& request) { request.ranges.clear(); };
    TextStream stream(head);
    bool closed = false;
    try {
      process_request(stream, /*close_connection=*/true, closed, drop_ranges);
    } catch (const std::exception&) {
      return "";
    }
    return stream.TakeAnswer();
  }

 private:
  void Serve(const char* path, const std::function<Status()>& answer) {
    Get(path, [&answer](const httplib::Request&, httplib::Response& response) {
      const Status status = answer();
      response.status = status.ok() ? 200 : 503;
      response.set_content((status.ok() ? "ok" : Message(status)) + "\n", "text/plain");
    });
  }

  const Answers answers_;
};

class HttpServer final : public MetricsServer {
 public:
  explicit HttpServer(Answers answers) : responder_(std::move(answers)) {}

  Status Serve(const std::string& endpoint) {
    LOCKSTEP_ASSIGN_OR_RETURN(Listener listener, Listen(endpoint));
    endpoint_ = std::move(listener.endpoint);
    LOCKSTEP_ASSIGN_OR_RETURN(
        port_, HttpPort::Start(std::move(listener.socket), [this](const std::string& head) {
          return responder_.Answer(head);
        }));
    return OkStatus();
  }

  const std::string& endpoint() const override { return endpoint_; }

 private:
  Responder responder_;  // which the port's thread calls
  std::string endpoint_;
  std::unique_ptr<HttpPort> port_;
};

}  // namespace

StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& endpoint,
                                                              Answers answers) {
  auto server = std::make_unique<HttpServer>(std::move(answers));
  LOCKSTEP_RETURN_IF_ERROR(server->Serve(endpoint));
  return server;
}

}  // namespace lockstep::metrics
