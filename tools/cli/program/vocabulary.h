// The steps of a program file and their keys: one table for the parser, its error messages,
// `lockstep run --list-steps` and the check that the documentation is complete.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli::program {

struct KeySpec {
  std::string_view name;
  std::string_view type;  // "rank", "list of ranks", "true or false", ...
  std::string_view doc;
};

struct VerbSpec {
  std::string_view name;     // the key that makes a map this step
  std::string_view operand;  // what stands behind it
  std::string_view doc;
  std::vector<KeySpec> keys;
  bool makes_register;  // takes `as: NAME`
};

// All steps, in the order of the documentation.
const std::vector<VerbSpec>& Vocabulary();
// Keys at the top of a file.
const std::vector<KeySpec>& TopLevelKeys();
// The step of this name; null if there is none.
const VerbSpec* FindVerb(std::string_view name);

}  // namespace lockstep::cli::program
