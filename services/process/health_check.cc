#include "services/process/health_check.h"

#include <httplib.h>

#include <string_view>

namespace lockstep::process {
namespace {

// Each of connecting and reading: together they are over before an orchestrator's three seconds
// are.
constexpr time_t kPatienceSeconds = 1;

}  // namespace

Status AskForHealth(const std::string& metrics_endpoint) {
  const bool port_is_known = !metrics_endpoint.empty() && metrics_endpoint.back() != '*' &&
                             !std::string_view(metrics_endpoint).ends_with(":0");
  if (!port_is_known) {
    return FailedPrecondition(
        "there is nobody to ask for health: set metrics_endpoint, with its port, such as "
        "http://127.0.0.1:9400");
  }
  httplib::Client client(metrics_endpoint);
  client.set_connection_timeout(kPatienceSeconds);
  client.set_read_timeout(kPatienceSeconds);
  const httplib::Result answer = client.Get("/healthz");
  if (!answer) {
    return Unavailable("no answer from ", metrics_endpoint,
                       "/healthz: ", httplib::to_string(answer.error()));
  }
  if (answer->status == 200) return OkStatus();
  return Internal(metrics_endpoint, "/healthz says ", answer->status, ": ", answer->body);
}

}  // namespace lockstep::process
