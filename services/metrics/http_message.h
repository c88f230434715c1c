// What a service says and understands of HTTP/1.1 (RFC 9110, RFC 9112): one GET or HEAD for each
// connection, which ends after the answer.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace lockstep::metrics {

struct HttpRequest {
  std::string path;  // without a query
  bool wants_body = true;
  // The status of the answer if this is no request that can be answered otherwise: then there is
  // no path.
  int refusal = 0;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain";
  std::string body = {};
};

// `head`: a request's line and headers, of which none changes an answer. Any bytes.
HttpRequest ParseHttpRequest(std::string_view head);

// All of an answer, as it is sent. Without a body, if the request does not want it, the headers are
// those of the answer that has one.
std::string HttpAnswerText(const HttpResponse& response, bool with_body = true);

// A GET by HTTP/1.0, after whose answer the peer closes the connection. `authority`: HOST:PORT.
std::string HttpRequestText(std::string_view authority, std::string_view path);

// The status and the body, as much of it as there is, of all that came until the peer closed the
// connection. kDataLoss if that is no answer.
StatusOr<HttpResponse> ParseHttpAnswer(std::string_view text);

}  // namespace lockstep::metrics
