// Passing arguments as people write them to a function on the workers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/client/session.h"
#include "tools/cli/argument.h"

namespace lockstep::cli {

// Calls `function` with `arguments`. Uninitialised tensors are made on every worker first;
// `find_register` gives the registers that arguments name.
StatusOr<DRef> CallWithArguments(Session& session, const DRef& function,
                                 const std::vector<Argument>& arguments,
                                 const std::function<DRef(const std::string&)>& find_register);

}  // namespace lockstep::cli
