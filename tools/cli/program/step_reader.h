// Typed access to the keys of one step; everything that is wrong with them is collected.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "services/config/problems.h"
#include "tools/cli/argument.h"
#include "tools/cli/program/program.h"
#include "tools/cli/program/vocabulary.h"

namespace lockstep::cli::program {

// " (did you mean "rank"?)" if one of `names` is close to `name`, else "".
std::string Suggestion(std::string_view name, const std::vector<std::string_view>& names);

// True for names of registers, and of all that a plan names: a letter (a-z, A-Z) or _, then
// letters, digits, _ .
bool IsRegisterName(std::string_view name);

// What is wrong with one for which it is false, and the rule.
std::string WhyNoName(std::string_view name);

// All of a file, as it is. kNotFound: it cannot be read.
StatusOr<std::string> ReadText(const std::string& path);

// The file that is being read, and what is wrong with it.
struct FileContext {
  std::string file;       // for messages
  std::string directory;  // what relative paths in it start from
  config::Problems& problems;

  void Report(const YAML::Node& at, const std::string& title, const std::string& what);
};

// Reads one step. The getters report what is wrong and then return something harmless.
//
// Ownership: borrows `file`. Threads: one.
class StepReader {
 public:
  // `node` is "verb" or a map. Unknown keys, no verb and several verbs are reported.
  StepReader(const YAML::Node& node, const std::string& number, FileContext& file);

  // Null if there is none to be read: the problem is reported.
  const VerbSpec* verb() const { return verb_; }
  const YAML::Node& operand() const { return operand_; }
  bool HasOperand() const { return operand_.IsDefined() && !operand_.IsNull(); }
  const std::string& title() const { return title_; }
  int line() const { return line_; }

  // The value of a key; not defined if it is not there.
  YAML::Node Find(std::string_view key) const;
  bool Has(std::string_view key) const { return Find(key).IsDefined(); }
  void Report(const YAML::Node& at, const std::string& what) { file_.Report(at, title_, what); }
  // Reports that a required key is missing.
  void Require(std::string_view key);

  std::string OperandText(std::string_view what);  // plain text
  std::string OperandRegister();                   // the name of a register
  std::string Register(std::string_view key);      // "" if the key is not there
  // Registers by other names; empty if the key is not there.
  std::map<std::string, std::string> Registers(std::string_view key);
  std::string Text(std::string_view key);  // "" if the key is not there
  bool Flag(std::string_view key);         // false if the key is not there
  std::optional<Rank> OneRank(std::string_view key);
  std::vector<Rank> Ranks(std::string_view key);  // empty if the key is not there
  RankChoice Choice(std::string_view key);        // one rank, several, or all
  double NonNegative(std::string_view key);       // 0 if the key is not there
  DType ElementType();                            // `dtype`, f32 if it is not there

  // Values of nodes inside the step.
  std::optional<Shape> ReadShape(const YAML::Node& node);
  std::optional<Argument> ReadAny(const YAML::Node& node);
  std::optional<int64_t> ReadCount(const YAML::Node& node, std::string_view what);
  std::optional<Rank> ReadRank(const YAML::Node& node, std::string_view key);

  // The result of `value`, or nothing after reporting its error at `at`.
  template <typename T>
  std::optional<T> Check(const YAML::Node& at, std::string_view key, StatusOr<T> value) {
    if (value.ok()) return *std::move(value);
    Report(at, (key.empty() ? "" : std::string(key) + ": ") + Message(value.status()));
    return std::nullopt;
  }

 private:
  void CheckKeys();
  std::string RegisterNameIn(const YAML::Node& node, std::string_view key);

  FileContext& file_;
  YAML::Node node_;
  YAML::Node operand_{YAML::NodeType::Undefined};
  std::map<std::string, YAML::Node, std::less<>> keys_;
  const VerbSpec* verb_ = nullptr;
  std::string title_;
  int line_ = 0;
};

}  // namespace lockstep::cli::program
