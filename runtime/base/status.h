// Status and StatusOr: how every Lockstep API reports failure.
//
// Both are Abseil's. Exceptions and return codes of other libraries are translated into them in the
// one file that wraps the library. A message says what was expected, what came, which rank it
// concerns, and what to do.
#pragma once

#include <sstream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"

namespace lockstep {

using Status = absl::Status;
using StatusCode = absl::StatusCode;
template <typename T>
using StatusOr = absl::StatusOr<T>;

inline Status OkStatus() { return absl::OkStatus(); }

// Builds a status whose message is the concatenation of `parts` as an ostream prints them.
template <typename... Parts>
Status MakeStatus(StatusCode code, const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  return Status(code, message.str());
}

template <typename... Parts>
Status InvalidArgument(const Parts&... parts) {
  return MakeStatus(StatusCode::kInvalidArgument, parts...);
}
template <typename... Parts>
Status NotFound(const Parts&... parts) {
  return MakeStatus(StatusCode::kNotFound, parts...);
}
template <typename... Parts>
Status AlreadyExists(const Parts&... parts) {
  return MakeStatus(StatusCode::kAlreadyExists, parts...);
}
template <typename... Parts>
Status FailedPrecondition(const Parts&... parts) {
  return MakeStatus(StatusCode::kFailedPrecondition, parts...);
}
template <typename... Parts>
Status OutOfRange(const Parts&... parts) {
  return MakeStatus(StatusCode::kOutOfRange, parts...);
}
template <typename... Parts>
Status ResourceExhausted(const Parts&... parts) {
  return MakeStatus(StatusCode::kResourceExhausted, parts...);
}
template <typename... Parts>
Status DeadlineExceeded(const Parts&... parts) {
  return MakeStatus(StatusCode::kDeadlineExceeded, parts...);
}
template <typename... Parts>
Status Unavailable(const Parts&... parts) {
  return MakeStatus(StatusCode::kUnavailable, parts...);
}
template <typename... Parts>
Status Aborted(const Parts&... parts) {
  return MakeStatus(StatusCode::kAborted, parts...);
}
template <typename... Parts>
Status Unimplemented(const Parts&... parts) {
  return MakeStatus(StatusCode::kUnimplemented, parts...);
}
template <typename... Parts>
Status PermissionDenied(const Parts&... parts) {
  return MakeStatus(StatusCode::kPermissionDenied, parts...);
}
template <typename... Parts>
Status DataLoss(const Parts&... parts) {
  return MakeStatus(StatusCode::kDataLoss, parts...);
}
template <typename... Parts>
Status Internal(const Parts&... parts) {
  return MakeStatus(StatusCode::kInternal, parts...);
}

// The message of `status` as a std::string (Abseil's own string_view is a type of its own here).
inline std::string Message(const Status& status) {
  return std::string(status.message().data(), status.message().size());
}

// `status` with "`context`: " put in front of its message, its backtrace kept; OK stays OK.
inline Status Annotate(const Status& status, const std::string& context) {
  if (status.ok()) return status;
  Status annotated(status.code(), context + ": " + Message(status));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    annotated.SetPayload(type, payload);
  });
  return annotated;
}

// The stack that a module's function gave with its error travels beside the message.
inline constexpr char kBacktracePayload[] = "lockstep/backtrace";
inline Status WithBacktrace(Status status, const std::string& backtrace) {
  if (!status.ok() && !backtrace.empty()) {
    status.SetPayload(kBacktracePayload, absl::Cord(backtrace));
  }
  return status;
}
// Empty if `status` has none.
inline std::string Backtrace(const Status& status) {
  const auto payload = status.GetPayload(kBacktracePayload);
  return payload.has_value() ? std::string(*payload) : std::string();
}

}  // namespace lockstep

// Returns from the enclosing function if `expression` is not OK.
#define LOCKSTEP_RETURN_IF_ERROR(expression)            \
  do {                                                  \
    ::lockstep::Status lockstep_status_ = (expression); \
    if (!lockstep_status_.ok()) [[unlikely]]            \
      return lockstep_status_;                          \
  } while (false)

#define LOCKSTEP_CONCAT_INNER(a, b) a##b
#define LOCKSTEP_CONCAT(a, b) LOCKSTEP_CONCAT_INNER(a, b)

// `LOCKSTEP_ASSIGN_OR_RETURN(auto value, MaybeValue());`
#define LOCKSTEP_ASSIGN_OR_RETURN(declaration, expression) \
  LOCKSTEP_ASSIGN_OR_RETURN_IMPL(LOCKSTEP_CONCAT(lockstep_or_, __LINE__), declaration, expression)
#define LOCKSTEP_ASSIGN_OR_RETURN_IMPL(result, declaration, expression) \
  auto result = (expression);                                           \
  if (!result.ok()) [[unlikely]]                                        \
    return std::move(result).status();                                  \
  declaration = std::move(result).value()
