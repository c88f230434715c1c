#include "runtime/control/error_codec.h"

#include <sstream>

#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"

namespace lockstep::control {
namespace {

constexpr char kPartsPayload[] = "lockstep/error";

}  // namespace

Status RemoteError::ToStatus() const {
  if (ok()) return OkStatus();
  std::ostringstream text;
  const char* separator = "";
  if (rank >= 0) {
    text << "rank " << rank;
    separator = ", ";
  }
  if (command > 0) {
    text << separator << "command " << command;
    separator = ", ";
  }
  if (!function.empty()) {
    text << separator << function;
    separator = ", ";
  }
  if (*separator != '\0') text << ": ";
  text << message;
  if (!stack.empty()) text << "\nremote stack:\n" << stack;
  Status status(code, text.str());
  const Frame parts =
      EncodeMessage<wire::Error>([&](wire::Error::Builder builder) { WriteError(builder, *this); });
  status.SetPayload(kPartsPayload, absl::Cord(absl::string_view(
                                       reinterpret_cast<const char*>(parts.data()), parts.size())));
  return status;
}

std::optional<RemoteError> RemoteErrorIn(const Status& status) {
  const auto payload = status.GetPayload(kPartsPayload);
  if (!payload.has_value()) return std::nullopt;
  const std::string bytes(*payload);
  RemoteError error;
  const Status read = DecodeMessage<wire::Error>(Frame::Copy(bytes.data(), bytes.size()),
                                                 [&](wire::Error::Reader reader) {
                                                   error = ReadError(reader);
                                                   return OkStatus();
                                                 });
  if (!read.ok()) return std::nullopt;
  return error;
}

RemoteError ErrorOf(const Status& status) {
  RemoteError error;
  error.code = status.code();
  error.message = lockstep::Message(status);
  return error;
}

void WriteError(wire::Error::Builder builder, const RemoteError& error) {
  builder.setCode(static_cast<uint16_t>(error.code));
  builder.setRank(error.rank);
  builder.setSession(error.session.value);
  builder.setCommand(error.command);
  builder.setFunction(TextOf(error.function));
  builder.setMessage(TextOf(error.message));
  builder.setStack(TextOf(error.stack));
}

RemoteError ReadError(wire::Error::Reader reader) {
  RemoteError error;
  const int code = reader.getCode();
  // A code that we do not know, or OK, cannot be an error's: it is kept as an unknown one.
  error.code = code > 0 && code <= static_cast<int>(StatusCode::kUnauthenticated)
                   ? static_cast<StatusCode>(code)
                   : StatusCode::kUnknown;
  error.rank = reader.getRank();
  error.session = SessionId(reader.getSession());
  error.command = reader.getCommand();
  error.function = ToString(reader.getFunction());
  error.message = ToString(reader.getMessage());
  error.stack = ToString(reader.getStack());
  return error;
}

}  // namespace lockstep::control
