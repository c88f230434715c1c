#include "services/metrics/http_message.h"

#include <algorithm>

#include "services/metrics/http_endpoint.h"

namespace lockstep::metrics {
namespace {

constexpr std::string_view kEndOfHead = "\r\n\r\n";
constexpr size_t kMostTargetBytes = 8192;

const char* ReasonOf(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 414:
      return "URI Too Long";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Unknown";
  }
}

HttpRequest Refused(int status) { return {.path = "", .wants_body = true, .refusal = status}; }

bool IsDigit(char byte) { return byte >= '0' && byte <= '9'; }

// "HTTP/1.0" and the like.
bool IsVersion(std::string_view text) {
  return text.size() == 8 && text.starts_with("HTTP/") && IsDigit(text[5]) && text[6] == '.' &&
         IsDigit(text[7]);
}

// What comes before the first `end`, and removes both; all if there is none.
std::string_view TakeUntil(std::string_view end, std::string_view* text) {
  const size_t at = std::min(text->find(end), text->size());
  const std::string_view taken = text->substr(0, at);
  text->remove_prefix(std::min(at + end.size(), text->size()));
  return taken;
}

}  // namespace

HttpRequest ParseHttpRequest(std::string_view head) {
  std::string_view line = TakeUntil("\r\n", &head);
  const std::string_view method = TakeUntil(" ", &line);
  std::string_view target = TakeUntil(" ", &line);
  if (method.empty() || target.empty() || !IsVersion(line)) {
    return Refused(target.size() > kMostTargetBytes ? 414 : 400);
  }
  if (line[5] != '1') return Refused(505);
  if (method != "GET" && method != "HEAD") return Refused(405);
  if (target.size() > kMostTargetBytes) return Refused(414);
  // What clients of proxies say (RFC 9112, 3.2.2) has the authority, too.
  if (target.starts_with(kScheme)) {
    target.remove_prefix(std::min(target.find('/', kScheme.size()), target.size()));
  }
  return {.path = std::string(TakeUntil("?", &target)), .wants_body = method == "GET"};
}

// Not by streams: a module's global locale may group the digits of their numbers.
std::string HttpAnswerText(const HttpResponse& response, bool with_body) {
  std::string text = "HTTP/1.1 " + std::to_string(response.status) + " ";
  text.append(ReasonOf(response.status));
  text.append("\r\nConnection: close\r\nContent-Type: ").append(response.content_type);
  text.append("\r\nContent-Length: ").append(std::to_string(response.body.size()));
  if (response.status == 405) text.append("\r\nAllow: GET, HEAD");
  text.append(kEndOfHead);
  if (with_body) text.append(response.body);
  return text;
}

std::string HttpRequestText(std::string_view authority, std::string_view path) {
  std::string text = "GET ";
  text.append(path).append(" HTTP/1.0\r\nHost: ").append(authority).append(kEndOfHead);
  return text;
}

StatusOr<HttpResponse> ParseHttpAnswer(std::string_view text) {
  const size_t end_of_head = text.find(kEndOfHead);
  std::string_view head = text.substr(0, end_of_head);
  const std::string_view version = TakeUntil(" ", &head);
  const std::string_view status = head.substr(0, head.find_first_of(" \r"));
  if (end_of_head == std::string_view::npos || !IsVersion(version) || status.size() != 3 ||
      !std::all_of(status.begin(), status.end(), IsDigit)) {
    return DataLoss("that is no answer by HTTP");
  }
  HttpResponse response{.status = 0,
                        .body = std::string(text.substr(end_of_head + kEndOfHead.size()))};
  for (const char digit : status) response.status = 10 * response.status + (digit - '0');
  return response;
}

}  // namespace lockstep::metrics
