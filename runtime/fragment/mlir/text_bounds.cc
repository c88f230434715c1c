#include "runtime/fragment/mlir/text_bounds.h"

#include "runtime/fragment/fragment.h"

namespace lockstep::fragment {

bool IsBytecode(std::string_view fragment) { return fragment.substr(0, 4) == "ML\xefR"; }

std::optional<Failure> CheckTextBounds(std::string_view fragment) {
  if (fragment.empty()) return Failure{StatusCode::kInvalidArgument, "the fragment is empty"};
  if (fragment.size() > Fragment::kMaxSourceBytes) {
    return Failure{StatusCode::kResourceExhausted,
                   "the fragment has " + std::to_string(fragment.size()) +
                       " bytes, more than the " + std::to_string(Fragment::kMaxSourceBytes) +
                       " that are allowed: pass data as arguments"};
  }
  if (IsBytecode(fragment)) return std::nullopt;
  int depth = 0;
  uint32_t line = 1;
  size_t line_begin = 0;
  char previous = ' ';
  for (size_t i = 0; i < fragment.size(); ++i) {
    const char c = fragment[i];
    if (c == '\n') {
      ++line;
      line_begin = i + 1;
    } else if (c == '(' || c == '[' || c == '{' || c == '<') {
      ++depth;
    } else if (c == ')' || c == ']' || c == '}' || (c == '>' && previous != '-')) {
      // Brackets in comments and strings are counted, too, so this need not be balanced.
      if (depth > 0) --depth;
    }
    if (depth > kMaxNesting) {
      return Failure{StatusCode::kResourceExhausted,
                     "brackets are nested more than " + std::to_string(kMaxNesting) + " deep", line,
                     static_cast<uint32_t>(i - line_begin + 1)};
    }
    previous = c;
  }
  return std::nullopt;
}

}  // namespace lockstep::fragment
