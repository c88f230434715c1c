#include "services/config/settings.h"

#include <algorithm>
#include <set>

#include "runtime/control/keys/key.h"
#include "services/config/yaml.h"

namespace lockstep::config {
namespace {

constexpr std::string_view kUnset = "\"\"";
constexpr char kSecretReason[] =
    "a secret key (lsk_...) has no place here, where others may read it: take it out, make a new "
    "one with `lockstep keys new`, and name its file under key";

const Setting* Find(const Settings& settings, const std::string& key) {
  const auto found = std::find_if(settings.begin(), settings.end(),
                                  [&](const Setting& setting) { return setting.key == key; });
  return found == settings.end() ? nullptr : &*found;
}

// True for "controller" if there is a "controller.heartbeat_interval".
bool IsSection(const Settings& settings, const std::string& key) {
  const std::string prefix = key + ".";
  return std::any_of(settings.begin(), settings.end(),
                     [&](const Setting& setting) { return setting.key.rfind(prefix, 0) == 0; });
}

// The list that "LIST[0].KEY" is in; "" for a key that is in none.
std::string ListOf(const std::string& key) {
  const size_t bracket = key.find('[');
  return bracket == std::string::npos ? "" : key.substr(0, bracket);
}

// The keys that could have been meant by one that is like none: those of its section, or, where
// there is no such section, those of none and the sections.
std::string AllowedBeside(const std::string& key, const std::vector<std::string>& known) {
  const auto section_of = [](const std::string& name) {
    return name.substr(0, name.find('.') + 1);  // "" where there is no dot
  };
  const auto is_there = [&](const std::string& section) {
    return std::any_of(known.begin(), known.end(),
                       [&](const std::string& name) { return section_of(name) == section; });
  };
  const std::string section = is_there(section_of(key)) ? section_of(key) : "";
  std::vector<std::string> names;
  for (const std::string& name : known) {
    const std::string its = section_of(name);
    std::string shown = its == section ? name : its + "*";
    if (its != section && !section.empty()) continue;
    if (std::find(names.begin(), names.end(), shown) == names.end()) {
      names.push_back(std::move(shown));
    }
  }
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

std::string UnknownKey(const Settings& settings, const std::string& key) {
  if (const std::string list = ListOf(key); Find(settings, list) != nullptr) {
    return list + ": the items of a list must be plain values";
  }
  std::vector<std::string> known;
  for (const Setting& setting : settings) {
    if (!setting.refused) known.push_back(setting.key);
  }
  const std::string nearest = Nearest(key, known);
  if (!nearest.empty()) return key + ": unknown key; did you mean \"" + nearest + "\"?";
  return key + ": unknown key; allowed: " + AllowedBeside(key, known);
}

bool HasSecret(const RawValue& value) {
  return std::any_of(value.items.begin(), value.items.end(), control::HasSecret);
}

// How many single-character insertions, deletions, changes and swaps of neighbours lead from `a`
// to `b` (optimal string alignment).
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

// A vertical bar would end the cell.
std::string Cell(const std::string& text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|') cell += '\\';
    cell += c;
  }
  return cell;
}

}  // namespace

std::string NameOf(const Sources& sources) {
  if (sources.file == kStandardInput) return std::string(kStandardInputName);
  return sources.file.empty() ? "settings" : sources.file;
}

const Entry* LastOf(const std::vector<Entry>& entries, const std::string& key) {
  const auto last = std::find_if(entries.rbegin(), entries.rend(),
                                 [&](const Entry& entry) { return entry.key == key; });
  return last == entries.rend() ? nullptr : &*last;
}

std::vector<Entry> ReadSources(const Sources& sources, Problems& problems) {
  std::vector<Entry> entries;
  if (!sources.file.empty()) entries = ReadYamlFile(sources.file, problems);
  for (const std::string& assignment : sources.assignments) {
    for (Entry& entry : ParseAssignment(assignment, problems)) entries.push_back(std::move(entry));
  }
  return entries;
}

void Apply(const std::vector<Entry>& entries, const Settings& settings, const std::string& name,
           Problems& problems) {
  std::set<std::string> given;
  for (const Entry& entry : entries) {
    given.insert(entry.key);
    const Setting* setting = Find(settings, entry.key);
    const bool is_secret =
        HasSecret(entry.value) && (setting == nullptr || !setting->takes_secrets);
    if (is_secret) {
      problems.Add(entry.where, entry.key + ": " + kSecretReason);
      if (setting != nullptr) continue;
    }
    if (setting == nullptr) {
      // A section whose keys are all commented out is no mistake.
      if (entry.value.form == RawValue::Form::kNothing && IsSection(settings, entry.key)) continue;
      problems.Add(entry.where, UnknownKey(settings, entry.key));
      continue;
    }
    const Status status = setting->store(entry.value);
    if (!status.ok()) problems.Add(entry.where, entry.key + ": " + Message(status));
  }
  for (const Setting& setting : settings) {
    if (!setting.required || given.count(setting.key) != 0) continue;
    problems.Add(name, setting.key + ": missing, but required; allowed: " + setting.allowed);
  }
}

std::string ToYaml(const Settings& settings) {
  std::string text;
  for (const Setting& setting : settings) {
    if (setting.refused) continue;
    const std::string value = setting.show();
    if (value == kUnset && !setting.required) continue;
    text += setting.key + ": " + value + "\n";
  }
  return text;
}

std::string ToMarkdown(const Settings& settings) {
  std::string text = "| Key | Type | Default | Allowed | Meaning |\n|---|---|---|---|---|\n";
  for (const Setting& setting : settings) {
    if (setting.refused) continue;
    std::string fallback = "`" + setting.fallback + "`";
    if (setting.required) {
      fallback = "required";
    } else if (setting.fallback == kUnset) {
      fallback = "none";
    }
    text += "| `" + setting.key + "` | " + setting.type + " | " + Cell(fallback) + " | " +
            Cell(setting.allowed) + " | " + Cell(setting.doc) + " |\n";
  }
  return text;
}

std::string Nearest(std::string_view word, const std::vector<std::string>& words) {
  // Comparing takes time and memory in proportion to both words.
  constexpr size_t kMaxLetters = 256;
  if (word.size() > kMaxLetters) return "";
  // A third of the letters may be wrong: more is another word.
  size_t best = word.size() / 3 + 1;
  std::string nearest;
  for (const std::string& candidate : words) {
    // Letters that one has more than the other are wrong in any case.
    const size_t more =
        std::max(word.size(), candidate.size()) - std::min(word.size(), candidate.size());
    if (more >= best) continue;
    const size_t distance = EditDistance(word, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace lockstep::config
