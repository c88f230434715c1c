// TVM Disco, the closest relative, where it is unpacked.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "tools/bench/report.h"
#include "tools/bench/settings.h"

namespace lockstep::bench {

// A rival of some lines. Threads: one at a time. Ownership: the lines are borrowed.
class Disco {
 public:
  // `number`: which of those that disco_rival.py prints is the lines' rival. Where Disco is not
  // unpacked the lines say so, and have one rival less.
  static StatusOr<Disco> Find(const Settings& settings, std::string number,
                              std::vector<Line*> lines);

  // One round.
  Status Measure(int workers) const;

 private:
  Disco() = default;

  std::string number_;
  std::vector<Line*> lines_;
  std::string program_;
  std::string folder_;  // of its libraries; empty: there are none
  std::string scratch_;
};

}  // namespace lockstep::bench
