// Reads the YAML of untrusted files: within limits.
//
// yaml-cpp reads what is short and becomes large: an alias stands for all that its anchor holds, so
// a few lines of aliases of aliases stand for more than any memory, and an alias inside its own
// anchor for something without end; and there are texts that it reads as documents without end.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstddef>
#include <optional>
#include <string>

namespace lockstep::config {

struct YamlLimits {
  size_t bytes = size_t{1} << 20;
  int depth = 64;
  // Counted with all aliases followed.
  size_t values = 1'000'000;
};

struct YamlDocument {
  YAML::Node root;
  // Where a second document begins, which is not read.
  std::optional<YAML::Mark> second;
};

// Throws YAML::Exception, also for what exceeds the limits.
YamlDocument ReadYamlDocument(const std::string& text, const YamlLimits& limits = {});

}  // namespace lockstep::config
