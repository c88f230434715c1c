#include "services/config/problems.h"

#include "runtime/control/keys/key.h"

namespace lockstep::config {
namespace {

constexpr size_t kMaxLines = 100;
constexpr size_t kMaxWhereBytes = 400;
constexpr size_t kMaxWhatBytes = 8000;

std::string Cut(std::string_view text, size_t max_bytes) {
  std::string cut(text.substr(0, max_bytes));
  if (text.size() > max_bytes) cut += "...";
  return cut;
}

}  // namespace

void Problems::Add(std::string_view where, std::string_view what) {
  ++count_;
  if (lines_.size() > kMaxLines) return;
  if (lines_.size() == kMaxLines) {
    lines_.emplace_back("and more");
    return;
  }
  const auto shown = [](std::string_view text, size_t max_bytes) {
    return Cut(control::HideSecrets(std::string(text)), max_bytes);
  };
  lines_.push_back(shown(where, kMaxWhereBytes) + ": " + shown(what, kMaxWhatBytes));
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
