// Comparing what a program expects with what a worker has.
#pragma once

#include <optional>
#include <string>

#include "runtime/control/value.h"
#include "tools/cli/program/program.h"

namespace lockstep::cli::program {

// What differs, for people: "element [1, 2] is 5, expected 6 (3 of 8 elements differ)"; nothing if
// all is as expected. Numbers are equal if |actual - expected| <= tolerance * max(1, |expected|);
// nan equals nan.
std::optional<std::string> Difference(const ExpectStep& expect,
                                      const std::optional<ExpectedValue>& expected,
                                      const Value& actual);

}  // namespace lockstep::cli::program
