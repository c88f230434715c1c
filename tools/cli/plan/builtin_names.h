// The functions that every worker has, by their names.
#pragma once

#include <string_view>

#include "runtime/base/status.h"

namespace lockstep::cli::plan_file {

// Names that begin with this are no names of a module's functions.
constexpr std::string_view kBuiltinPrefix = "lockstep.";

// kNotFound: a name that begins so, and no function has it; with those that may be meant, in the
// words of a worker. Other names are good.
Status CheckBuiltinName(std::string_view function);

}  // namespace lockstep::cli::plan_file
