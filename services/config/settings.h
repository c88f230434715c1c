// What can be done with a table of settings: reading into it, writing it out, describing it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "services/config/problems.h"
#include "services/config/setting.h"
#include "services/config/yaml.h"

namespace lockstep::config {

// Where values come from: first a file (none if empty), then "KEY=VALUE" assignments, in order.
struct Sources {
  std::string file;
  std::vector<std::string> assignments;
};

// What a configuration is called in problems that belong to no line: "cluster.yaml".
std::string NameOf(const Sources& sources);

// The entries of all sources, later ones overriding. A file that cannot be read is a problem too.
std::vector<Entry> ReadSources(const Sources& sources, Problems& problems);

// The entry that decides about `key`: later ones override. Null if none gives it. Borrowed.
const Entry* LastOf(const std::vector<Entry>& entries, const std::string& key);

// Stores `entries` into `settings`. Problems: unknown keys (with the nearest known one), values
// that a setting refuses, secret keys where they do not belong (never repeated), and required
// settings that no entry gives; the latter are reported at `name`.
void Apply(const std::vector<Entry>& entries, const Settings& settings, const std::string& name,
           Problems& problems);

// A YAML file with every setting's present value, which reads back as the same values. Required
// settings always have one; others are left out while they hold an empty text, which means "not
// set".
std::string ToYaml(const Settings& settings);

// The rows of a Markdown table: key, type, default, allowed values, meaning.
std::string ToMarkdown(const Settings& settings);

// The word of `words` that `word` is most likely a misspelling of; "" if none is near.
std::string Nearest(std::string_view word, const std::vector<std::string>& words);

}  // namespace lockstep::config
