#include "runtime/client/worker_output.h"

#include <unistd.h>

#include <string_view>

#include "runtime/base/utf8.h"

namespace lockstep {
namespace {

// Length of the control character at the front; 0: there is none. The tab is none: it does no harm.
size_t ControlLength(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  if (first == '\t') return 0;
  if (first < 0x20 || first == 0x7f) return 1;
  // U+0080 to U+009F, which some terminals obey as they do ESC and another character.
  const auto second = static_cast<unsigned char>(text.size() > 1 ? text[1] : 0);
  return first == 0xc2 && second >= 0x80 && second <= 0x9f ? 2 : 0;
}

std::string WithoutControls(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const size_t length = ControlLength(text);
    for (size_t i = 0; i < length; ++i) safe += HexEscape(text[i]);
    if (length == 0) safe += text.front();
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return safe;
}

}  // namespace

std::string FormatOutput(const WorkerOutput& output, bool for_terminal) {
  std::string line = "[rank " + std::to_string(output.rank) + "] ";
  if (output.dropped > 0) {
    return line + "(" + std::to_string(output.dropped) +
           (output.dropped == 1 ? " line" : " lines") + " dropped: too much was printed)";
  }
  return line + (for_terminal ? WithoutControls(output.text) : output.text);
}

OutputCallback PrintOutput(std::FILE* out, std::FILE* err) {
  const bool out_is_terminal = isatty(fileno(out)) == 1;
  const bool err_is_terminal = isatty(fileno(err)) == 1;
  return [=](const WorkerOutput& output) {
    const bool to_out = output.stream == WorkerOutput::Stream::kStdout;
    const std::string line =
        FormatOutput(output, to_out ? out_is_terminal : err_is_terminal) + '\n';
    std::FILE* const file = to_out ? out : err;
    std::fwrite(line.data(), 1, line.size(), file);
    std::fflush(file);
  };
}

}  // namespace lockstep
