// Everything that is wrong with one configuration, so that all of it is reported at once.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace lockstep::config {

// Threads: one at a time.
class Problems {
 public:
  // `where` is "FILE:LINE" or "--set KEY=VALUE"; `what` names the key, the value and what is
  // allowed. Both are cut where they are very long, and only the first hundred problems are told:
  // what is read may be no configuration at all. Secret keys in them are not repeated.
  void Add(std::string_view where, std::string_view what);

  bool empty() const { return count_ == 0; }
  // Of all that were added.
  size_t size() const { return count_; }

  // OK, or kInvalidArgument with a line per problem, in the order in which they were added.
  Status ToStatus() const;

 private:
  std::vector<std::string> lines_;
  size_t count_ = 0;
};

}  // namespace lockstep::config
