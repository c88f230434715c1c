#include "services/config/problems.h"

namespace lockstep::config {

void Problems::Add(std::string_view where, std::string_view what) {
  std::string line(where);
  line += ": ";
  line += what;
  lines_.push_back(std::move(line));
}

Status Problems::ToStatus() const {
  if (lines_.empty()) return OkStatus();
  std::string text;
  for (const std::string& line : lines_) {
    if (!text.empty()) text += '\n';
    text += line;
  }
  return InvalidArgument(text);
}

}  // namespace lockstep::config
