// What the readers of a `plan:` section share: the file, and what of the section could not be read.
#pragma once

#include <yaml-cpp/yaml.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "tools/cli/program/step_reader.h"

namespace lockstep::cli::plan_file {

// The node's text; "" if it is not there, or no scalar.
std::string ScalarOf(const YAML::Node& node);

// The keys of a map from names, for suggestions. They are borrowed from it.
std::vector<std::string_view> NamesOf(const auto& map) {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : map) names.push_back(name);
  return names;
}

// Ownership: borrows `file`. Threads: one.
class PlanContext {
 public:
  explicit PlanContext(program::FileContext& file) : file_(file) {}

  program::FileContext& file() { return file_; }
  void Report(const YAML::Node& at, const std::string& title, const std::string& what) {
    file_.Report(at, title, what);
  }
  // Reports the keys of `node` that are not among the known ones, or given twice.
  void CheckKeys(const YAML::Node& node, const std::string& title,
                 const std::vector<std::string_view>& known);

  // Reports a node that is there and is no list: its items would be passed over.
  bool CheckList(const YAML::Node& node, const std::string& title, const std::string& what);

  // There is something of this name, which cannot be read: what is wrong with it has been reported.
  void NoteUnread(const std::string& name) { unread_.insert(name); }
  // Reports that there is no `name`, unless one was there that could not be read.
  void ReportMissing(const YAML::Node& at, const std::string& title, const std::string& kind,
                     const std::string& name, const std::vector<std::string_view>& known);

  // The value, or nothing after reporting its error.
  template <typename T>
  std::optional<T> Check(const YAML::Node& at, const std::string& title, StatusOr<T> value) {
    if (value.ok()) return *std::move(value);
    file_.Report(at, title, Message(value.status()));
    return std::nullopt;
  }

  // Reads each of the named entries of a part of the section, which may be missing: `read(name,
  // node)` is false where it has reported that the entry cannot be read.
  template <typename Read>
  void ReadEach(const YAML::Node& part, const std::string& title, Read&& read) {
    if (!part.IsDefined()) return;
    if (!part.IsMap()) return Report(part, "plan", title + ": expected names");
    std::set<std::string> names;
    for (const auto& entry : part) {
      if (!entry.first.IsScalar()) {
        Report(entry.first, "plan." + title, "expected a name");
      } else if (!program::IsRegisterName(entry.first.Scalar())) {
        Report(entry.first, "plan." + title, program::WhyNoName(entry.first.Scalar()));
        NoteUnread(entry.first.Scalar());
      } else if (!names.insert(entry.first.Scalar()).second) {
        Report(entry.first, "plan." + title, "\"" + entry.first.Scalar() + "\" is given twice");
      } else if (!read(entry.first.Scalar(), entry.second)) {
        NoteUnread(entry.first.Scalar());
      }
    }
  }

 private:
  program::FileContext& file_;
  std::set<std::string> unread_;
};

}  // namespace lockstep::cli::plan_file
