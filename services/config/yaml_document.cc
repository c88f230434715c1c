#include "services/config/yaml_document.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string_view>
#include <vector>

namespace lockstep::config {
namespace {

// Counts what a document holds, its aliases followed, before anything is made of it.
class Measure final : public YAML::EventHandler {
 public:
  explicit Measure(const YamlLimits& limits) : limits_(limits) {}

  void OnDocumentStart(const YAML::Mark& mark) override { begin_ = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Count(mark, anchor, {1, 0});
  }
  void OnScalar(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                const std::string& /*value*/) override {
    Count(mark, anchor, {1, 0});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = known_.find(anchor);
    if (known == known_.end()) throw YAML::ParserException(mark, "an alias inside its own anchor");
    Count(mark, 0, known->second);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    Begin(mark, anchor);
  }
  void OnSequenceEnd() override { End(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    Begin(mark, anchor);
  }
  void OnMapEnd() override { End(); }

  const YAML::Mark& begin() const { return begin_; }

 private:
  struct Size {
    size_t values = 0;
    int levels = 0;  // of lists and maps
  };
  struct Open {
    YAML::Mark mark;
    YAML::anchor_t anchor = 0;
    Size size;
  };

  void Begin(const YAML::Mark& mark, YAML::anchor_t anchor) {
    Check(mark, {1, static_cast<int>(open_.size()) + 1});
    open_.push_back({mark, anchor, {1, 1}});
  }
  void End() {
    const Open ended = open_.back();
    open_.pop_back();
    Count(ended.mark, ended.anchor, ended.size);
  }
  void Count(const YAML::Mark& mark, YAML::anchor_t anchor, Size size) {
    if (anchor != 0) known_[anchor] = size;
    if (open_.empty()) return Check(mark, size);
    Size& around = open_.back().size;
    around.values += size.values;
    around.levels = std::max(around.levels, size.levels + 1);
    Check(mark, {around.values, static_cast<int>(open_.size()) + size.levels});
  }
  void Check(const YAML::Mark& mark, const Size& size) const {
    if (size.values <= limits_.values && size.levels <= limits_.depth) return;
    throw YAML::ParserException(mark, "nested too deeply, or too many values");
  }

  const YamlLimits& limits_;
  YAML::Mark begin_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Size> known_;
};

// How many bytes the character at the front of `text` has, by RFC 3629; 0: there is none.
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) -> unsigned { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  const size_t length = byte(0) < 0xc2   ? 0
                        : byte(0) < 0xe0 ? 2
                        : byte(0) < 0xf0 ? 3
                        : byte(0) < 0xf5 ? 4
                                         : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Longer than need be, half of a pair of UTF-16, or beyond the last character.
  const unsigned begin = byte(0) << 8 | byte(1);
  const bool is_bad = (begin >= 0xe080 && begin < 0xe0a0) || (begin >= 0xeda0 && begin < 0xee00) ||
                      (begin >= 0xf080 && begin < 0xf090) || (begin >= 0xf490 && begin < 0xf500);
  return is_bad && length > 2 ? 0 : length;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace

YamlDocument ReadYamlDocument(const std::string& text, const YamlLimits& limits) {
  if (text.size() > limits.bytes) {
    throw YAML::ParserException(YAML::Mark::null_mark(),
                                "larger than " + std::to_string(limits.bytes) + " bytes");
  }
  // yaml-cpp would read something else than is written, and write something else again.
  if (!IsUtf8(text)) throw YAML::ParserException(YAML::Mark::null_mark(), "it is no UTF-8");
  YamlDocument document;
  {
    std::istringstream in(text);
    YAML::Parser parser(in);
    Measure first(limits);
    parser.HandleNextDocument(first);
    Measure second(limits);
    if (parser.HandleNextDocument(second)) document.second = second.begin();
  }
  document.root = YAML::Load(text);
  return document;
}

}  // namespace lockstep::config
