// What comes over HTTP: to a service's port a request, to who asks there an answer.
#include <cstdint>
#include <string_view>

#include "services/metrics/http_message.h"
#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {

void ReadHttp(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const metrics::HttpRequest request = metrics::ParseHttpRequest(text);
  // Who reads an answer finds what was said.
  const metrics::HttpResponse said{.status = request.refusal == 0 ? 200 : request.refusal,
                                   .body = request.path};
  const auto heard = metrics::ParseHttpAnswer(metrics::HttpAnswerText(said, request.wants_body));
  if (!heard.ok() || heard->status != said.status) __builtin_trap();
  if (request.wants_body && heard->body != said.body) __builtin_trap();
  (void)metrics::ParseHttpAnswer(text);
}

}  // namespace lockstep::fuzz
