// The functions that every worker has under a name, without loading a module.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/module/function.h"

namespace lockstep::module {

// Built by main, then only read. Threads: safe to read from any once it is filled.
class FunctionTable {
 public:
  // kAlreadyExists if the name is taken.
  Status Add(std::shared_ptr<Function> function);

  // kNotFound names the functions whose names are nearest.
  StatusOr<std::shared_ptr<Function>> Find(std::string_view name) const;

  // All names, sorted.
  std::vector<std::string> Names() const;

 private:
  std::map<std::string, std::shared_ptr<Function>, std::less<>> functions_;
};

// The names among `known` that a person who typed `name` may have meant, best first, at most three.
std::vector<std::string> NearestNames(std::string_view name, const std::vector<std::string>& known);

}  // namespace lockstep::module
