#include "tools/cli/program/step_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

#include "services/config/settings.h"

namespace lockstep::cli::program {
namespace {

std::string Join(const std::vector<std::string_view>& names) {
  std::string text;
  for (std::string_view name : names) {
    text += text.empty() ? "" : ", ";
    text += name;
  }
  return text;
}

std::vector<std::string_view> VerbNames() {
  std::vector<std::string_view> names;
  for (const VerbSpec& verb : Vocabulary()) names.push_back(verb.name);
  return names;
}

}  // namespace

std::string Suggestion(std::string_view name, const std::vector<std::string_view>& names) {
  const std::string nearest = config::Nearest(name, {names.begin(), names.end()});
  return nearest.empty() ? "" : " (did you mean \"" + nearest + "\"?)";
}

bool IsRegisterName(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return is_letter(c) || is_digit(c); });
}

std::string WhyNoName(std::string_view name) {
  return "\"" + std::string(name) +
         "\" is no name: names have letters (a-z, A-Z), digits and _, and begin with no digit";
}

void FileContext::Report(const YAML::Node& at, const std::string& title, const std::string& what) {
  std::string where = file;
  if (at.IsDefined() && !at.Mark().is_null()) {
    where.append(":").append(std::to_string(at.Mark().line + 1));
  }
  problems.Add(where, title.empty() ? what : title + ": " + what);
}

StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::error_code error;
  if (!in || std::filesystem::is_directory(path, error)) {
    return NotFound(path, ": cannot be read: ", std::strerror(in ? EISDIR : errno));
  }
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

StepReader::StepReader(const YAML::Node& node, const std::string& number, FileContext& file)
    : file_(file), node_(node), title_("step " + number), line_(node.Mark().line + 1) {
  if (node.IsScalar()) {
    verb_ = FindVerb(node.Scalar());
    if (verb_ == nullptr) {
      Report(node,
             "unknown step \"" + node.Scalar() + "\"" + Suggestion(node.Scalar(), VerbNames()));
    }
  } else if (node.IsMap()) {
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) {
        Report(entry.first, "a key must be a word");
      } else if (!keys_.emplace(entry.first.Scalar(), entry.second).second) {
        Report(entry.first, "the key \"" + entry.first.Scalar() + "\" is given twice");
      }
    }
    for (const auto& [key, value] : keys_) {
      const VerbSpec* verb = FindVerb(key);
      if (verb == nullptr) continue;
      if (verb_ != nullptr) {
        Report(node, "one step cannot be both \"" + std::string(verb_->name) + "\" and \"" + key +
                         "\"; begin the second one with a dash of its own");
        verb_ = nullptr;
        return;
      }
      verb_ = verb;
      operand_.reset(value);
    }
    if (verb_ == nullptr) {
      std::string suggestion;
      for (const auto& [key, value] : keys_) {
        if (suggestion.empty()) suggestion = Suggestion(key, VerbNames());
      }
      Report(node,
             "this is no step" + suggestion + "; a step has one of the keys " + Join(VerbNames()));
    }
  } else {
    Report(node, "a step is a map such as {allreduce: x, as: total}");
  }
  if (verb_ == nullptr) return;
  title_ += " (" + std::string(verb_->name);
  if (operand_.IsDefined() && operand_.IsScalar()) title_ += " " + operand_.Scalar();
  title_ += ')';
  CheckKeys();
}

void StepReader::CheckKeys() {
  std::vector<std::string_view> known;
  for (const KeySpec& key : verb_->keys) known.push_back(key.name);
  if (verb_->makes_register) known.push_back("as");
  for (const auto& [key, value] : keys_) {
    if (key == verb_->name || std::find(known.begin(), known.end(), key) != known.end()) continue;
    std::string what = "unknown key \"" + key + "\"" + Suggestion(key, known);
    what += known.empty() ? "; this step has no keys" : "; its keys are " + Join(known);
    Report(value, what);
  }
  if (verb_->operand == "nothing" && HasOperand()) {
    Report(operand_, "nothing stands behind \"" + std::string(verb_->name) + "\"");
  } else if (!verb_->operand.starts_with("nothing") && !HasOperand()) {
    Report(node_,
           "behind \"" + std::string(verb_->name) + "\" stands: " + std::string(verb_->operand));
  }
}

YAML::Node StepReader::Find(std::string_view key) const {
  const auto found = keys_.find(key);
  return found == keys_.end() ? YAML::Node(YAML::NodeType::Undefined) : found->second;
}

void StepReader::Require(std::string_view key) {
  if (!Has(key)) Report(node_, "the key \"" + std::string(key) + "\" is missing");
}

std::map<std::string, std::string> StepReader::Registers(std::string_view key) {
  std::map<std::string, std::string> registers;
  const YAML::Node node = Find(key);
  if (!node.IsDefined() || node.IsNull()) return registers;
  if (!node.IsMap()) {
    Report(node, std::string(key) + ": expected names and registers, as in {x: weights}");
    return registers;
  }
  for (const auto& entry : node) {
    const bool is_read =
        entry.first.IsScalar() && entry.second.IsScalar() && IsRegisterName(entry.second.Scalar());
    if (!is_read) {
      Report(entry.first, std::string(key) + ": expected the name of a register, as in x: weights");
    } else if (!registers.emplace(entry.first.Scalar(), entry.second.Scalar()).second) {
      Report(entry.first, std::string(key) + ": \"" + entry.first.Scalar() + "\" is given twice");
    }
  }
  return registers;
}

std::string StepReader::OperandText(std::string_view what) {
  if (!HasOperand()) return "";
  if (operand_.IsScalar() && !operand_.Scalar().empty()) return operand_.Scalar();
  Report(operand_, "expected " + std::string(what));
  return "";
}

std::string StepReader::RegisterNameIn(const YAML::Node& node, std::string_view key) {
  const std::string prefix = key.empty() ? "" : std::string(key) + ": ";
  if (!node.IsScalar()) {
    Report(node, prefix + "expected the name of a register");
    return "";
  }
  const std::string& name = node.Scalar();
  if (IsRegisterName(name)) return name;
  if (name.starts_with('$')) {
    Report(node,
           prefix + "write " + name.substr(1) + " without the $: only a register can stand here");
  } else {
    Report(node, prefix + WhyNoName(name));
  }
  return "";
}

std::string StepReader::OperandRegister() {
  return HasOperand() ? RegisterNameIn(operand_, "") : "";
}

std::string StepReader::Register(std::string_view key) {
  const YAML::Node node = Find(key);
  return node.IsDefined() ? RegisterNameIn(node, key) : "";
}

std::string StepReader::Text(std::string_view key) {
  const YAML::Node node = Find(key);
  if (!node.IsDefined()) return "";
  if (node.IsScalar()) return node.Scalar();
  Report(node, std::string(key) + ": expected text");
  return "";
}

bool StepReader::Flag(std::string_view key) {
  const YAML::Node node = Find(key);
  if (!node.IsDefined()) return false;
  if (node.IsScalar() && node.Scalar() == "true") return true;
  if (node.IsScalar() && node.Scalar() == "false") return false;
  Report(node, std::string(key) + ": expected true or false");
  return false;
}

std::optional<int64_t> StepReader::ReadCount(const YAML::Node& node, std::string_view what) {
  if (node.IsScalar()) {
    const auto number = ParseNumber(node.Scalar());
    if (number.ok() && number->has_value()) {
      const int64_t* count = std::get_if<int64_t>(&**number);
      if (count != nullptr && *count >= 0) return *count;
    }
  }
  Report(node, "expected " + std::string(what) + ": a whole number from 0");
  return std::nullopt;
}

std::optional<Rank> StepReader::ReadRank(const YAML::Node& node, std::string_view key) {
  const std::optional<int64_t> rank = ReadCount(node, std::string(key) + " to be a rank");
  if (!rank.has_value()) return std::nullopt;
  if (*rank <= std::numeric_limits<Rank>::max()) return static_cast<Rank>(*rank);
  Report(node, std::string(key) + ": there is no rank " + std::to_string(*rank));
  return std::nullopt;
}

std::optional<Rank> StepReader::OneRank(std::string_view key) {
  const YAML::Node node = Find(key);
  return node.IsDefined() ? ReadRank(node, key) : std::nullopt;
}

std::vector<Rank> StepReader::Ranks(std::string_view key) {
  const YAML::Node node = Find(key);
  if (!node.IsDefined()) return {};
  if (!node.IsSequence() || node.size() == 0) {
    Report(node, std::string(key) + ": expected a list of ranks, as in [0, 2]");
    return {};
  }
  std::vector<Rank> ranks;
  for (const YAML::Node& item : node) {
    const std::optional<Rank> rank = ReadRank(item, key);
    if (!rank.has_value()) return {};
    if (std::find(ranks.begin(), ranks.end(), *rank) != ranks.end()) {
      Report(item, std::string(key) + ": rank " + std::to_string(*rank) + " is there twice");
    }
    ranks.push_back(*rank);
  }
  return ranks;
}

RankChoice StepReader::Choice(std::string_view key) {
  const YAML::Node node = Find(key);
  if (!node.IsDefined()) return std::nullopt;
  if (node.IsSequence()) return Ranks(key);
  if (node.IsScalar() && node.Scalar() == "all") return std::nullopt;
  const std::optional<Rank> rank = ReadRank(node, key);
  if (!rank.has_value()) return std::nullopt;
  return std::vector<Rank>{*rank};
}

double StepReader::NonNegative(std::string_view key) {
  const YAML::Node node = Find(key);
  if (!node.IsDefined()) return 0;
  if (node.IsScalar()) {
    const auto number = ParseNumber(node.Scalar());
    if (number.ok() && number->has_value() && ToDouble(**number) >= 0) return ToDouble(**number);
  }
  Report(node, std::string(key) + ": expected a number that is not negative");
  return 0;
}

DType StepReader::ElementType() {
  const YAML::Node node = Find("dtype");
  if (!node.IsDefined()) return DType::kFloat32;
  return Check(node, "dtype", ParseDType(node.IsScalar() ? node.Scalar() : ""))
      .value_or(DType::kFloat32);
}

std::optional<Shape> StepReader::ReadShape(const YAML::Node& node) {
  std::vector<int64_t> dims;
  if (!node.IsSequence()) {
    Report(node, "expected a shape, as in [2, 3]");
    return std::nullopt;
  }
  for (const YAML::Node& item : node) {
    const std::optional<int64_t> dim = ReadCount(item, "an extent of the shape");
    if (!dim.has_value()) return std::nullopt;
    dims.push_back(*dim);
  }
  Shape shape(dims);
  const Status valid = shape.Validate(sizeof(double));
  if (valid.ok()) return shape;
  Report(node, Message(valid));
  return std::nullopt;
}

std::optional<Argument> StepReader::ReadAny(const YAML::Node& node) {
  std::optional<Argument> argument = Check(node, "", ReadArgument(node, file_.directory));
  if (!argument.has_value()) return std::nullopt;
  const auto* reference = std::get_if<RegisterReference>(&*argument);
  if (reference != nullptr && !IsRegisterName(reference->name)) {
    Report(node, WhyNoName(reference->name));
    return std::nullopt;
  }
  return argument;
}

}  // namespace lockstep::cli::program
