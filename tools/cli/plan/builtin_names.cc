#include "tools/cli/plan/builtin_names.h"

#include "runtime/module/builtins.h"

namespace lockstep::cli::plan_file {

Status CheckBuiltinName(std::string_view function) {
  if (!function.starts_with(kBuiltinPrefix)) return OkStatus();
  static const module::FunctionTable* const kBuiltins = [] {
    auto* const table = new module::FunctionTable();
    module::AddBuiltins(*table);
    return table;
  }();
  return kBuiltins->Find(function).status();
}

}  // namespace lockstep::cli::plan_file
