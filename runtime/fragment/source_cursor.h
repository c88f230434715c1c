// A place in a text, by line and column: what a small parser goes on by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep::fragment {

// Threads: one at a time; copies are independent. The text is borrowed.
class SourceCursor {
 public:
  static bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

  explicit SourceCursor(std::string_view source) : source_(source) {}

  // From 1; columns are bytes.
  uint32_t line() const { return line_; }
  uint32_t column() const { return static_cast<uint32_t>(at_ - line_begin_ + 1); }
  bool AtEnd() const { return at_ >= source_.size(); }
  bool AtLineEnd() const { return AtEnd() || source_[at_] == '\n'; }
  char Peek() const { return AtEnd() ? '\0' : source_[at_]; }
  std::string_view Rest() const { return source_.substr(at_); }
  void Skip(size_t bytes) { at_ += bytes; }
  bool SkipText(std::string_view text) {
    if (!Rest().starts_with(text)) return false;
    Skip(text.size());
    return true;
  }
  void SkipBlanks() {
    while (!AtEnd() && IsBlank(Peek())) Skip(1);
  }
  // False: there is none.
  bool NextLine() {
    const size_t end = source_.find('\n', at_);
    if (end == std::string_view::npos) return false;
    at_ = line_begin_ = end + 1;
    ++line_;
    return true;
  }

 private:
  std::string_view source_;
  size_t at_ = 0;
  size_t line_begin_ = 0;
  uint32_t line_ = 1;
};

}  // namespace lockstep::fragment
