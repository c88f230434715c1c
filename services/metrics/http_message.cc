#include "services/metrics/http_message.h"

#include <algorithm>
#include <charconv>
#include <sstream>

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
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Unknown";
  }
}

HttpRequest Refused(int status) { return {.path = "", .wants_body = true, .refusal = status}; }

// "HTTP/1.0" and the like.
bool IsVersion(std::string_view text) {
  const auto is_digit = [text](size_t at) { return text[at] >= '0' && text[at] <= '9'; };
  return text.size() == 8 && text.starts_with("HTTP/") && is_digit(5) && text[6] == '.' &&
         is_digit(7);
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

std::string HttpAnswerText(const HttpResponse& response, bool with_body) {
  std::ostringstream head;
  head << "HTTP/1.1 " << response.status << " " << ReasonOf(response.status)
       << "\r\nConnection: close\r\nContent-Type: " << response.content_type
       << "\r\nContent-Length: " << response.body.size();
  if (response.status == 405) head << "\r\nAllow: GET, HEAD";
  head << kEndOfHead;
  return with_body ? head.str() + response.body : head.str();
}

std::string HttpRequestText(std::string_view authority, std::string_view path) {
  std::ostringstream head;
  head << "GET " << path << " HTTP/1.0\r\nHost: " << authority << kEndOfHead;
  return head.str();
}

StatusOr<HttpResponse> ParseHttpAnswer(std::string_view text) {
  const bool is_whole = text.find(kEndOfHead) != std::string_view::npos;
  std::string_view head = TakeUntil(kEndOfHead, &text);
  const std::string_view version = TakeUntil(" ", &head);
  const std::string_view digits = head.substr(0, std::min<size_t>(3, head.size()));
  int status = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), status);
  if (!is_whole || !IsVersion(version) || error != std::errc() || status < 100) {
    return DataLoss("that is no answer by HTTP");
  }
  return HttpResponse{.status = status, .body = std::string(text)};
}

}  // namespace lockstep::metrics
