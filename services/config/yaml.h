// The entries of a configuration, as they are written in YAML: in a file, on standard input, or in
// one `--set KEY=VALUE`; before their types are known. yaml-cpp and its exceptions end here.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "services/config/problems.h"

namespace lockstep::config {

// One value as it was written.
struct RawValue {
  enum class Form {
    kNothing,  // "key:" alone, "key: null" or "key: {}"
    kScalar,   // one item
    kList,     // any number of items
  };

  Form form = Form::kNothing;
  std::vector<std::string> items;
  // Relative paths among the items start here.
  std::string directory;
  // It came by standard input, where no other user sees it: not in a file, nor on a command line.
  bool is_private = false;

  // As a person would write it, for messages.
  std::string Text() const;
};

struct Entry {
  // The way to the value through the file's sections: "controller.heartbeat_interval".
  std::string key;
  RawValue value;
  // "cluster.yaml:12", or "--set heartbeat_interval=5s".
  std::string where;
};

// What stands for the path of a file that comes by standard input, and what messages call it.
inline constexpr std::string_view kStandardInput = "-";
inline constexpr std::string_view kStandardInputName = "standard input";

// The entries of the file at `path`, in its order; "-": of the standard input (ReadDocument).
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

// What `fd` has up to its end, or to a line "...", by which YAML ends a document: more may follow,
// or the input stay open, and the sender need not close it. Waits for it.
// kInvalidArgument: more than `max_bytes`.
StatusOr<std::string> ReadDocument(int fd, size_t max_bytes);

}  // namespace lockstep::config
