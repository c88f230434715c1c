#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "services/config/yaml.h"
#include "services/local/config_file.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands/commands.h"
#include "tools/cli/common_options.h"
#include "tools/cli/value_text.h"
#include "tools/text/format.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

struct ConfigOptions {
  std::string kind = "auto";
  std::vector<std::string> files;
  OutputFormat format = OutputFormat::kTable;
};

StatusOr<local::FileKind> KindOf(const ConfigOptions& options, const std::string& file) {
  if (options.kind == "auto" && file == config::kStandardInput) {
    return InvalidArgument("standard input is read once only: say what it is with --kind");
  }
  return options.kind == "auto" ? local::GuessFileKind(file) : local::ParseFileKind(options.kind);
}

struct FileReport {
  std::string file;
  std::string kind;  // empty: not known
  Status status;
};

FileReport CheckFile(const ConfigOptions& options, const std::string& file) {
  const StatusOr<local::FileKind> kind = KindOf(options, file);
  if (!kind.ok()) return {file, "", kind.status()};
  return {file, std::string(local::Name(*kind)), local::ValidateFile(*kind, file)};
}

// A file's problems, one a line.
std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

Status Validate(const ConfigOptions& options) {
  const text::Style style = text::Style::For(STDOUT_FILENO);
  Json reports = Json::array();
  size_t wrong = 0;
  for (const std::string& file : options.files) {
    const FileReport report = CheckFile(options, file);
    wrong += report.status.ok() ? 0 : 1;
    if (options.format == OutputFormat::kJson) {
      reports.push_back({{"file", file},
                         {"kind", report.kind.empty() ? Json() : Json(report.kind)},
                         {"valid", report.status.ok()},
                         {"problems", Lines(Message(report.status))}});
    } else if (report.status.ok()) {
      std::cout << style.Paint(text::Tint::kGreen, "ok") << "     " << file << "  (" << report.kind
                << ")\n";
    } else {
      std::cout << style.Paint(text::Tint::kRed, "wrong") << "  " << file << '\n';
      for (const std::string& line : Lines(Message(report.status))) {
        std::cout << "       " << line << '\n';
      }
    }
  }
  if (options.format == OutputFormat::kJson) std::cout << ToText(reports) << '\n';
  if (wrong == 0) return OkStatus();
  return UsageError(text::Plural(wrong, "file"), " of ", options.files.size(),
                    wrong == 1 ? " is wrong" : " are wrong");
}

// A paragraph: what it is, and below what it means, in lines that fit.
std::string SettingText(const config::Setting& setting, const std::string& fallback,
                        const text::Style& style) {
  constexpr int kIndent = 6;
  constexpr int kUsualWidth = 100;
  const int width = style.width() > 0 ? style.width() : kUsualWidth;
  std::string facts = setting.type;
  if (setting.required) {
    facts += ", required";
  } else if (!fallback.empty()) {
    facts += ", default " + fallback;
  }
  if (!setting.allowed.empty()) facts += "; " + setting.allowed;
  std::string text = "  " + style.Paint(text::Tint::kBold, setting.key) + "\n";
  for (const std::string& part : {facts, setting.doc}) {
    for (const std::string& line : text::Wrap(part, std::max(width - kIndent, 40))) {
      text += std::string(kIndent, ' ') +
              (part == facts ? style.Paint(text::Tint::kDim, line) : line) + "\n";
    }
  }
  return text;
}

Status Show(const ConfigOptions& options) {
  const local::FileKind kinds[] = {local::FileKind::kCluster, local::FileKind::kController,
                                   local::FileKind::kWorker};
  const text::Style style = text::Style::For(STDOUT_FILENO);
  Json all = Json::object();
  bool first = true;
  for (local::FileKind kind : kinds) {
    const std::string name(local::Name(kind));
    if (options.kind != "auto" && options.kind != name) continue;
    std::string lines;
    Json rows = Json::array();
    for (const config::Setting& setting : local::Describe(kind)) {
      if (setting.refused) continue;
      const std::string fallback = setting.required ? "(required)" : setting.fallback;
      lines += SettingText(setting, fallback, style);
      rows.push_back({{"key", setting.key},
                      {"type", setting.type},
                      {"default", setting.required ? Json() : Json(setting.fallback)},
                      {"required", setting.required},
                      {"allowed", setting.allowed},
                      {"doc", setting.doc}});
    }
    all[name] = std::move(rows);
    if (options.format == OutputFormat::kJson) continue;
    std::cout << (first ? "" : "\n") << style.Paint(text::Tint::kBold, name) << " file\n";
    std::cout << lines;
    first = false;
  }
  if (options.format == OutputFormat::kJson) std::cout << ToText(all) << '\n';
  return OkStatus();
}

}  // namespace

void AddConfig(Command lockstep) {
  Command command = lockstep.AddCommand("config", "Check configuration files, list settings");
  command.RequireCommand();
  command.Examples(
      "  lockstep config validate cluster.yaml\n"
      "  lockstep config show --kind worker\n");
  auto options = std::make_shared<ConfigOptions>();
  const std::vector<std::string> kinds = {"auto", "cluster", "controller", "worker"};

  Command validate = command.AddCommand("validate", "Check files without starting anything");
  validate.Add("FILE", options->files, "YAML files").Required().Placeholder("");
  validate.Add("--kind", options->kind, "what the files configure; auto: told by their keys")
      .OneOf(kinds)
      .Placeholder("KIND");
  AddOutputOption(validate, options->format);
  validate.Examples(
      "  lockstep config validate cluster.yaml\n"
      "  lockstep config validate --kind worker etc/*.yaml --output json\n");
  validate.Do([options] { return Validate(*options); });

  Command show = command.AddCommand("show", "List all settings with their defaults");
  show.Add("--kind", options->kind, "one kind of file only: cluster, controller, worker")
      .OneOf(kinds)
      .Placeholder("KIND");
  AddOutputOption(show, options->format);
  show.Examples("  lockstep config show\n  lockstep config show --kind cluster\n");
  show.Do([options] { return Show(*options); });
}

}  // namespace lockstep::cli
