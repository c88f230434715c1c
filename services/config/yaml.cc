#include "services/config/yaml.h"

#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/control/keys/key.h"
#include "services/config/yaml_document.h"

namespace lockstep::config {
namespace {

constexpr std::string_view kEndLine = "\n...\n";

// Where the line "..." begins, or npos.
size_t FindEndLine(const std::string& text) {
  if (text.rfind(kEndLine.substr(1), 0) == 0) return 0;
  const size_t newline = text.find(kEndLine);
  return newline == std::string::npos ? newline : newline + 1;
}

// A configuration has a few dozen values.
constexpr size_t kMaxFileBytes = size_t{1} << 20;
constexpr YamlLimits kLimits{.bytes = kMaxFileBytes, .depth = 8, .values = 20'000};
// Of a key with the sections that it is in: every value in a section has the section's name in its
// own, and a misspelt one is compared with all that there are.
constexpr size_t kMaxKeyBytes = 256;

std::string At(const std::string& name, const YAML::Mark& mark) {
  if (mark.is_null()) return name;
  return name + ":" + std::to_string(mark.line + 1);
}

// Walks a document and lists its leaves.
class Flattener {
 public:
  Flattener(std::string name, std::string directory, Problems& problems)
      : name_(std::move(name)), directory_(std::move(directory)), problems_(problems) {}

  std::vector<Entry> Run(const YAML::Node& root) {
    if (root.IsMap()) {
      Map(root, "");
    } else if (!root.IsNull()) {
      problems_.Add(At(name_, root.Mark()), "expected \"key: value\" lines at the top of the file");
    }
    return std::move(entries_);
  }

 private:
  void Map(const YAML::Node& map, const std::string& prefix) {
    for (const auto& pair : map) {
      const YAML::Node& key = pair.first;
      if (!key.IsScalar()) {
        problems_.Add(At(name_, key.Mark()), "a key must be a plain word");
        continue;
      }
      if (prefix.size() + key.Scalar().size() > kMaxKeyBytes) {
        problems_.Add(At(name_, key.Mark()), "a key of more than " + std::to_string(kMaxKeyBytes) +
                                                 " letters, with the sections that it is in");
        continue;
      }
      Value(pair.second, prefix + key.Scalar(), At(name_, key.Mark()));
    }
  }

  void Value(const YAML::Node& node, const std::string& key, const std::string& where) {
    if (node.IsMap() && node.size() > 0) {
      Map(node, key + ".");
      return;
    }
    RawValue value;
    value.directory = directory_;
    if (node.IsScalar()) {
      value.form = RawValue::Form::kScalar;
      value.items.push_back(node.Scalar());
    } else if (node.IsSequence() && HasSections(node)) {
      value.form = RawValue::Form::kList;
      if (!Add({key, std::move(value), where})) return;
      int index = 0;
      for (const YAML::Node& item : node) {
        Value(item, key + "[" + std::to_string(index++) + "]", At(name_, item.Mark()));
      }
      return;
    } else if (node.IsSequence()) {
      value.form = RawValue::Form::kList;
      for (const YAML::Node& item : node) {
        if (!item.IsScalar()) {
          problems_.Add(where, key + ": the items of a list must be plain values");
          return;
        }
        value.items.push_back(item.Scalar());
      }
    }
    Add({key, std::move(value), where});
  }

  static bool HasSections(const YAML::Node& list) {
    return std::any_of(list.begin(), list.end(), [](const auto& item) { return item.IsMap(); });
  }

  // False if its key was given before.
  bool Add(Entry entry) {
    const auto [first, is_new] = seen_.emplace(entry.key, entry.where);
    if (is_new) {
      entries_.push_back(std::move(entry));
    } else {
      problems_.Add(entry.where, entry.key + ": given twice, first at " + first->second);
    }
    return is_new;
  }

  const std::string name_;
  const std::string directory_;
  Problems& problems_;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> seen_;  // key -> where
};

StatusOr<std::string> ReadText(const std::string& path) {
  if (path == kStandardInput) return ReadDocument(STDIN_FILENO, kMaxFileBytes);
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return InvalidArgument("is a directory, expected a YAML file");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return NotFound("cannot be read: ", std::strerror(errno));
  }
  std::string text;
  char part[4096];
  while (text.size() <= kMaxFileBytes && (in.read(part, sizeof part), in.gcount() > 0)) {
    text.append(part, static_cast<size_t>(in.gcount()));
  }
  if (in.bad()) return Internal("cannot be read: ", std::strerror(errno));
  if (text.size() > kMaxFileBytes) {
    return InvalidArgument("is larger than 1MiB: this is no configuration file");
  }
  return text;
}

}  // namespace

std::string RawValue::Text() const {
  if (form == Form::kScalar) return items.front();
  std::string text = "[";
  for (size_t i = 0; i < items.size(); ++i) text += (i == 0 ? "" : ", ") + items[i];
  return text + "]";
}

std::vector<Entry> ParseYaml(const std::string& text, const std::string& name,
                             const std::string& directory, Problems& problems, bool is_private) {
  try {
    const YamlDocument document = ReadYamlDocument(text, kLimits);
    if (document.second.has_value()) {
      problems.Add(At(name, *document.second), "a second document begins here; expected one");
    }
    std::vector<Entry> entries = Flattener(name, directory, problems).Run(document.root);
    for (Entry& entry : entries) entry.value.is_private = is_private;
    return entries;
  } catch (const YAML::Exception& error) {
    problems.Add(At(name, error.mark), "not valid YAML: " + error.msg);
    return {};
  }
}

std::vector<Entry> ReadYamlFile(const std::string& path, Problems& problems) {
  const StatusOr<std::string> text = ReadText(path);
  const std::string name(path == kStandardInput ? kStandardInputName : path);
  if (!text.ok()) {
    problems.Add(name, Message(text.status()));
    return {};
  }
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error) {
    problems.Add(path, "has no absolute path: " + error.message());
    return {};
  }
  return ParseYaml(*text, name, absolute.parent_path().string(), problems,
                   /*is_private=*/path == kStandardInput);
}

std::vector<Entry> ParseAssignment(const std::string& assignment, Problems& problems) {
  const size_t equals = assignment.find('=');
  // A secret that is given here is refused, but not repeated in logs.
  const std::string where =
      "--set " + (control::HasSecret(assignment) ? assignment.substr(0, equals) : assignment);
  if (equals == std::string::npos || equals == 0) {
    problems.Add(where, "expected KEY=VALUE");
    return {};
  }
  std::error_code error;
  const std::string directory = std::filesystem::current_path(error).string();
  if (error) {
    problems.Add(where, "the working directory is unknown: " + error.message());
    return {};
  }
  Problems syntax;
  std::vector<Entry> entries =
      ParseYaml(assignment.substr(0, equals) + ": " + assignment.substr(equals + 1), where,
                directory, syntax);
  // Several come of a list of sections only; the first is the list's own.
  const bool is_one_value =
      entries.size() == 1 || (!entries.empty() && entries[0].value.form == RawValue::Form::kList);
  if (!syntax.empty() || !is_one_value || entries[0].key != assignment.substr(0, equals)) {
    problems.Add(where, "expected KEY=VALUE, the value as in a YAML file: 4, 500ms, [/a, /b]");
    return {};
  }
  for (Entry& entry : entries) entry.where = where;
  return entries;
}

std::string YamlScalar(std::string_view text) {
  // Letters first, then nothing that YAML could take for syntax: colons only inside a word.
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::strchr("_./-+:*", c) != nullptr;
  };
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), is_plain) &&
                     (std::isalnum(static_cast<unsigned char>(text.front())) ||
                      text.front() == '/' || text.front() == '-') &&
                     text != "-" && text.back() != ':' && text != "null" && text != "Null" &&
                     text != "NULL" && text.find("---") != 0;
  if (plain) return std::string(text);
  YAML::Emitter quoted;
  quoted << YAML::DoubleQuoted << std::string(text);
  return quoted.c_str();
}

StatusOr<std::string> ReadDocument(int fd, size_t max_bytes) {
  std::string text;
  while (text.size() <= max_bytes) {
    char part[4096];
    const ssize_t count = read(fd, part, sizeof part);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return NotFound("cannot be read: ", std::strerror(errno));
    if (count == 0) return text;
    text.append(part, static_cast<size_t>(count));
    const size_t end = FindEndLine(text);
    if (end != std::string::npos) return text.substr(0, end);
  }
  return InvalidArgument("is larger than ", max_bytes, " bytes: this is no configuration");
}

}  // namespace lockstep::config
