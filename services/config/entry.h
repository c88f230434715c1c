// One value of a configuration as it was written, before its type is known.
#pragma once

#include <string>
#include <vector>

namespace lockstep::config {

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
  // It came by standard input, where nobody else sees it: not in a file, nor on a command line.
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

}  // namespace lockstep::config
