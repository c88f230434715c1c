#include "runtime/client/failure.h"

#include "runtime/control/error_codec.h"

namespace lockstep {

std::optional<Failure> FailureOf(const Status& status) {
  const std::optional<control::RemoteError> error = control::RemoteErrorIn(status);
  if (!error.has_value()) return std::nullopt;
  return Failure{error->rank,     error->session, error->command,
                 error->function, error->message, error->stack};
}

}  // namespace lockstep
