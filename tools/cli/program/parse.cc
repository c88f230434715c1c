#include "tools/cli/program/parse.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "runtime/base/quantity.h"
#include "services/config/yaml_document.h"
#include "tools/cli/plan/plan_file.h"
#include "tools/cli/program/parse_step.h"
#include "tools/cli/program/step_reader.h"

namespace lockstep::cli::program {
namespace {

// Programs may hold tensors.
constexpr config::YamlLimits kLimits{.bytes = size_t{64} << 20};

std::optional<int> ReadSmallCount(const YAML::Node& node, const std::string& key,
                                  FileContext& file) {
  constexpr int64_t kMost = 1'000'000;
  if (node.IsScalar()) {
    const auto number = ParseNumber(node.Scalar());
    const int64_t* count =
        number.ok() && number->has_value() ? std::get_if<int64_t>(&**number) : nullptr;
    if (count != nullptr && *count >= 1 && *count <= kMost) return static_cast<int>(*count);
  }
  file.Report(node, "", key + ": expected a whole number from 1");
  return std::nullopt;
}

void ReadTimeout(const YAML::Node& node, Program& program, FileContext& file) {
  const auto timeout = ParseDuration(node.IsScalar() ? node.Scalar() : "");
  if (!timeout.ok()) {
    file.Report(node, "", "timeout: " + Message(timeout.status()));
  } else if (*timeout < std::chrono::milliseconds(1)) {
    file.Report(node, "", "timeout: expected at least 1ms");
  } else {
    program.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(*timeout);
  }
}

void ReadTop(const YAML::Node& root, Program& program, FileContext& file) {
  if (!root.IsMap()) {
    file.Report(root, "", "a program is a map with the key \"steps\"");
    return;
  }
  std::vector<std::string_view> known;
  for (const KeySpec& key : TopLevelKeys()) known.push_back(key.name);
  std::vector<std::string> seen;
  for (const auto& entry : root) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
    const YAML::Node& value = entry.second;
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
      file.Report(entry.first, "", "the key \"" + key + "\" is given twice");
      continue;
    }
    seen.push_back(key);
    if (key == "name") {
      if (value.IsScalar())
        program.name = value.Scalar();
      else
        file.Report(value, "", "name: expected text");
    } else if (key == "workers") {
      program.workers = ReadSmallCount(value, key, file);
    } else if (key == "groups") {
      program.groups = ReadSmallCount(value, key, file).value_or(1);
    } else if (key == "timeout") {
      ReadTimeout(value, program, file);
    } else if (key == "plan") {
      program.plan = plan_file::ReadPlanSection(value, file);
    } else if (key == "steps") {
      program.steps = ParseSteps(value, "", file);
    } else {
      file.Report(entry.first, "", "unknown key \"" + key + "\"" + Suggestion(key, known));
    }
  }
  if (std::find(seen.begin(), seen.end(), "steps") == seen.end()) {
    file.Report(
        root, "",
        std::string("the key \"steps\" is missing") +
            (program.plan.has_value() ? "; the step {execute: plan} executes the plan" : ""));
  }
}

uint64_t CountExecuted(const std::vector<Step>& steps) {
  uint64_t count = 0;
  for (const Step& step : steps) {
    if (const auto* repeat = std::get_if<RepeatStep>(&step.action)) {
      count += static_cast<uint64_t>(repeat->times) * CountExecuted(repeat->body);
    } else {
      ++count;
    }
  }
  return count;
}

}  // namespace

uint64_t Program::NumExecuted() const { return CountExecuted(steps); }

Program ParseProgram(const std::string& text, const std::string& file_name,
                     const std::string& directory, config::Problems& problems) {
  FileContext file{file_name, directory, problems};
  Program program;
  program.file = file_name;
  program.name = std::filesystem::path(file_name).stem().string();
  try {
    ReadTop(config::ReadYamlDocument(text, kLimits).root, program, file);
  } catch (const YAML::Exception& error) {
    const std::string line = error.mark.is_null() ? "" : ":" + std::to_string(error.mark.line + 1);
    file.problems.Add(file_name + line, "not valid YAML: " + error.msg);
  }
  return program;
}

StatusOr<Program> ReadProgramFile(const std::string& path, config::Problems& problems) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  return ParseProgram(text, path, std::filesystem::path(path).parent_path().string(), problems);
}

}  // namespace lockstep::cli::program
