// What the registers of a worker's sessions hold, as it tells whoever looks at the cluster.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/ids.h"

namespace lockstep {

// What is in it is not told: whoever may look at a cluster may not read its data.
struct HeldRegister {
  RegisterId id;
  std::string name;  // empty: it has none
  std::string type;  // "tensor", "int64", "text", "function", ...
  uint64_t bytes = 0;
  // Of a tensor.
  std::string dtype;
  std::vector<int64_t> shape;
  std::string device;
  std::string detail;  // which function or module it is, how many items are in it

  bool operator==(const HeldRegister&) const = default;
};

struct SessionHoldings {
  SessionId session;
  uint64_t registers = 0;  // that have a value
  uint64_t bytes = 0;      // of all of them
  // By id; when there are more than were asked for, those that hold most.
  std::vector<HeldRegister> listed;
};

}  // namespace lockstep
