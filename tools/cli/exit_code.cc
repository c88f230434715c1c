#include "tools/cli/exit_code.h"

#include <utility>

#include "absl/strings/cord.h"

namespace lockstep::cli {
namespace {

constexpr char kPayloadUrl[] = "lockstep/cli/exit_code";

}  // namespace

Status WithExitCode(Status status, ExitCode code) {
  // Ignored by an OK status.
  status.SetPayload(kPayloadUrl, absl::Cord(std::to_string(static_cast<int>(code))));
  return status;
}

ExitCode ExitCodeOf(const Status& status) {
  if (status.ok()) return ExitCode::kOk;
  const auto payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return ExitCode::kFailed;
  return static_cast<ExitCode>(std::stoi(std::string(*payload)));
}

}  // namespace lockstep::cli
