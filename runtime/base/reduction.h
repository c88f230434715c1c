// How the elements of several ranks become one.
#pragma once

#include <cstdint>
#include <ostream>
#include <string_view>

#include "runtime/base/status.h"

namespace lockstep {

// The numeric values are part of the wire format (schemas/control.capnp).
enum class Reduction : uint8_t { kSum = 0, kProd = 1, kMin = 2, kMax = 3, kAvg = 4 };
inline constexpr int kReductionCount = 5;

// "sum", "prod", "min", "max", "avg"
std::string_view Name(Reduction op);
// kInvalidArgument lists the names that exist.
StatusOr<Reduction> ParseReduction(std::string_view name);
inline std::ostream& operator<<(std::ostream& out, Reduction op) { return out << Name(op); }

}  // namespace lockstep
