#include "services/config/standard_input.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace lockstep::config {
namespace {

constexpr std::string_view kEndLine = "\n...\n";

// Where the line "..." begins, or npos.
size_t FindEndLine(const std::string& text) {
  if (text.rfind(kEndLine.substr(1), 0) == 0) return 0;
  const size_t newline = text.find(kEndLine);
  return newline == std::string::npos ? newline : newline + 1;
}

}  // namespace

StatusOr<std::string> ReadDocument(int fd, size_t max_bytes) {
  std::string text;
  while (text.size() <= max_bytes) {
    char part[4096];
    const ssize_t count = read(fd, part, sizeof part);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return NotFound("cannot be read: ", std::strerror(errno));
    if (count == 0) return text;
    text.append(part, static_cast<size_t>(count));
    const size_t end = FindEndLine(text);
    if (end != std::string::npos) return text.substr(0, end);
  }
  return InvalidArgument("is larger than ", max_bytes, " bytes: this is no configuration");
}

}  // namespace lockstep::config
