#include "runtime/control/error_codec.h"

#include <cstring>
#include <iterator>
#include <sstream>

#include "runtime/control/value_codec.h"

namespace lockstep::control {
namespace {

// Readable, because Abseil prints payloads with their status; without what the message says anyway.
constexpr char kPartsPayload[] = "lockstep/failure";
constexpr char kSession[] = "session";
constexpr char kRank[] = "rank";
constexpr char kCommand[] = "command";
constexpr char kFunction[] = "function";
constexpr char kStackHeading[] = "\nremote stack:\n";

// "rank 2, command 17, lockstep.fail: "
std::string PlaceOf(const RemoteError& error) {
  std::ostringstream text;
  const char* separator = "";
  if (error.rank >= 0) {
    text << "rank " << error.rank;
    separator = ", ";
  }
  if (error.command > 0) {
    text << separator << "command " << error.command;
    separator = ", ";
  }
  if (!error.function.empty()) {
    text << separator << error.function;
    separator = ", ";
  }
  if (*separator != '\0') text << ": ";
  return text.str();
}

// "session 5, rank 2, command 17, function lockstep.fail", without those that are not known.
std::string PartsOf(const RemoteError& error) {
  std::ostringstream text;
  const char* separator = "";
  const auto add = [&](const char* key, const auto& value) {
    text << separator << key << ' ' << value;
    separator = ", ";
  };
  if (error.session != SessionId()) add(kSession, error.session.value);
  if (error.rank >= 0) add(kRank, error.rank);
  if (error.command > 0) add(kCommand, error.command);
  if (!error.function.empty()) add(kFunction, error.function);
  return text.str();
}

void ReadParts(const std::string& text, RemoteError& error) {
  std::istringstream parts(text);
  std::string key;
  while (parts >> key) {
    if (key == kSession) parts >> error.session.value;
    if (key == kRank) parts >> error.rank;
    if (key == kCommand) parts >> error.command;
    if (key == kFunction) {
      // It comes last, and may be of several words.
      parts.ignore(1);
      error.function.assign(std::istreambuf_iterator<char>(parts),
                            std::istreambuf_iterator<char>());
      return;
    }
    parts.ignore(1);  // the comma
  }
}

// A function may throw a text of any length, and an error is told to all ranks, and kept with the
// session: what is behind this is cut off.
constexpr size_t kMostMessageBytes = 8 << 10;
constexpr size_t kMostStackBytes = 16 << 10;

std::string Cut(const std::string& text, size_t most) {
  // It may have been cut before, and says how long it was.
  constexpr size_t kLongestEnding = 64;
  if (text.size() <= most + kLongestEnding) return text;
  // Not within a character of UTF-8.
  size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "... (" + std::to_string(text.size()) + " bytes)";
}

}  // namespace

Status RemoteError::ToStatus() const {
  if (ok()) return OkStatus();
  std::string text = PlaceOf(*this) + message;
  if (!stack.empty()) text += kStackHeading + stack;
  Status status(code, text);
  const std::string parts = PartsOf(*this);
  if (!parts.empty()) status.SetPayload(kPartsPayload, absl::Cord(parts));
  return status;
}

std::optional<RemoteError> RemoteErrorIn(const Status& status) {
  const auto payload = status.GetPayload(kPartsPayload);
  if (!payload.has_value()) return std::nullopt;
  RemoteError error;
  ReadParts(std::string(*payload), error);
  error.code = status.code();
  // Behind what the status was annotated with, and the place.
  const std::string place = PlaceOf(error);
  error.message = lockstep::Message(status);
  const size_t at = error.message.find(place);
  if (at != std::string::npos) error.message.erase(0, at + place.size());
  const size_t heading = error.message.find(kStackHeading);
  if (heading != std::string::npos) {
    error.stack = error.message.substr(heading + std::strlen(kStackHeading));
    error.message.erase(heading);
  }
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
  builder.setFunction(TextOf(Cut(error.function, kMostMessageBytes)));
  builder.setMessage(TextOf(Cut(error.message, kMostMessageBytes)));
  builder.setStack(TextOf(Cut(error.stack, kMostStackBytes)));
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
