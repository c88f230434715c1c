#include "services/metrics/metrics_server.h"

#include <exception>
#include <new>
#include <utility>

#include "services/metrics/http_endpoint.h"
#include "services/metrics/http_message.h"
#include "services/metrics/http_port.h"

namespace lockstep::metrics {
namespace {

// From a path to what is there.
class Responder {
 public:
  explicit Responder(Answers answers) : answers_(std::move(answers)) {}

  // Nothing if there is no memory for one.
  std::string Answer(const std::string& head) const {
    try {
      const HttpRequest request = ParseHttpRequest(head);
      return HttpAnswerText(request.refusal != 0 ? HttpResponse{.status = request.refusal}
                                                 : TryToRespond(request.path),
                            request.wants_body);
    } catch (const std::bad_alloc&) {
      return "";
    }
  }

 private:
  HttpResponse TryToRespond(const std::string& path) const {
    try {
      return ResponseTo(path);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& exception) {
      return {.status = 500, .body = std::string(exception.what()) + "\n"};
    } catch (...) {
      return {.status = 500};
    }
  }
  HttpResponse ResponseTo(const std::string& path) const {
    if (path == "/metrics") {
      return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
              .body = answers_.metrics()};
    }
    if (path == "/startupz") return Says(answers_.started());
    if (path == "/healthz") return Says(answers_.healthy());
    if (path == "/readyz") return Says(answers_.ready());
    if (path == "/idlez") return Says(answers_.idle());
    return {.status = 404};
  }
  static HttpResponse Says(const Status& status) {
    return {.status = status.ok() ? 200 : 503,
            .body = (status.ok() ? "ok" : Message(status)) + "\n"};
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
