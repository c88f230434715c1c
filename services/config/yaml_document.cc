#include "services/config/yaml_document.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <sstream>
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

}  // namespace

YamlDocument ReadYamlDocument(const std::string& text, const YamlLimits& limits) {
  if (text.size() > limits.bytes) {
    throw YAML::ParserException(YAML::Mark::null_mark(),
                                "larger than " + std::to_string(limits.bytes) + " bytes");
  }
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
