#include "services/process/health_check.h"

#include <string_view>
#include <thread>

#include "runtime/base/deadline.h"
#include "services/metrics/http_client.h"

namespace lockstep::process {
namespace {

// An orchestrator's is three seconds.
constexpr std::chrono::seconds kPatience{2};

constexpr std::chrono::milliseconds kPause{200};
// In a row: then no service is there.
constexpr int kSilences = 3;

Status Ask(const std::string& metrics_endpoint, const char* path) {
  const bool port_is_known = !metrics_endpoint.empty() && metrics_endpoint.back() != '*' &&
                             !std::string_view(metrics_endpoint).ends_with(":0");
  if (!port_is_known) {
    return FailedPrecondition(
        "there is no endpoint to ask: set metrics_endpoint, with its port, such as "
        "http://127.0.0.1:9400");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const metrics::HttpResponse answer,
                            metrics::HttpGet(metrics_endpoint, path, Deadline::After(kPatience)));
  if (answer.status == 200) return OkStatus();
  return Internal(metrics_endpoint, path, " says ", answer.status, ": ", answer.body);
}

}  // namespace

Status AskForHealth(const std::string& metrics_endpoint) {
  return Ask(metrics_endpoint, "/healthz");
}

Status AwaitIdle(const std::string& metrics_endpoint, std::chrono::microseconds patience) {
  const Deadline deadline = Deadline::After(patience);
  for (int silences = 0;;) {
    const Status idle = Ask(metrics_endpoint, "/idlez");
    // A busy one may be late once; and one that says otherwise may say something else in a moment.
    silences = idle.code() == StatusCode::kUnavailable ? silences + 1 : 0;
    const bool ask_again = idle.code() == StatusCode::kInternal ||
                           (idle.code() == StatusCode::kUnavailable && silences < kSilences);
    if (!ask_again || deadline.Expired()) return idle;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace lockstep::process
