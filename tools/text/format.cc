#include "tools/text/format.h"

#include <cstddef>
#include <sstream>

#include "tools/text/terminal.h"

namespace lockstep::text {

std::string FormatCount(uint64_t count) {
  std::string digits = std::to_string(count);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string Plural(uint64_t count, std::string_view noun) {
  return FormatCount(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::vector<std::string> Wrap(std::string_view text, int width) {
  std::vector<std::string> lines;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    const bool fits =
        !lines.empty() && DisplayWidth(lines.back()) + 1 + DisplayWidth(word) <= width;
    if (fits) {
      lines.back() += " " + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

}  // namespace lockstep::text
