// Reads YAML into entries and writes YAML scalars. yaml-cpp and its exceptions end here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "services/config/entry.h"
#include "services/config/problems.h"

namespace lockstep::config {

// The entries of the file at `path`, in its order; "-": of the standard input (standard_input.h).
// Its top is a map; maps in it are sections, whose keys are joined by dots. A list of plain values
// is one entry; a list with a section among its items is an empty one "LIST", then those of its
// items: "LIST[0].KEY", or "LIST[0]" for a plain value. Whatever is wrong, from a file that cannot
// be read to a key that is given twice, goes to `problems`.
std::vector<Entry> ReadYamlFile(const std::string& path, Problems& problems);

// The same for a text. `name` stands for the file in messages; the others as in RawValue.
std::vector<Entry> ParseYaml(const std::string& text, const std::string& name,
                             const std::string& directory, Problems& problems,
                             bool is_private = false);

// The entries of "--set KEY=VALUE": one, unless VALUE is a list of sections. VALUE is written as in
// a file: "[a, b]" is a list. Relative paths start at the working directory.
std::vector<Entry> ParseAssignment(const std::string& assignment, Problems& problems);

// `text` as a YAML scalar that reads back as the same text: plain where that is safe, else quoted.
std::string YamlScalar(std::string_view text);

}  // namespace lockstep::config
