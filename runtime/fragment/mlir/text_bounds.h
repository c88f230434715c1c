// What is looked at before a parser sees the fragment.
#pragma once

#include <optional>
#include <string_view>

#include "runtime/fragment/mlir/compiler.h"

namespace lockstep::fragment {

// True for MLIR's bytecode, false for text.
bool IsBytecode(std::string_view fragment);

// A failure if the fragment is empty or larger than Fragment::kMaxSourceBytes, or if its text has
// brackets inside of more than kMaxNesting others: MLIR's parser calls itself for each, and would
// run out of stack.
std::optional<Failure> CheckTextBounds(std::string_view fragment);

}  // namespace lockstep::fragment
