#include "runtime/module/ffi_globals.h"

#include <cstdint>
#include <memory>

#include "runtime/module/ffi_object.h"
#include "runtime/module/ffi_values.h"
#include "runtime/registers/value.h"

namespace lockstep::module {

using registers::List;
using registers::Value;

StatusOr<std::set<std::string>> GlobalFunctionNames() {
  LOCKSTEP_ASSIGN_OR_RETURN(const FfiAny names,
                            CallFfiGlobal("ffi.FunctionListGlobalNamesFunctor", {}));
  const auto ask = [&](int64_t what) -> StatusOr<FfiAny> {
    TVMFFIAny arg = MakeFfiAny(kTVMFFIInt);
    arg.v_int64 = what;
    FfiAny answer;
    TVMFFIObject* const functor = names.get().v_obj;
    LOCKSTEP_RETURN_IF_ERROR(
        CallFfi(TVMFFIFunctionGetCellPtr(functor)->safe_call, functor, {&arg, 1}, &answer));
    return answer;
  };
  LOCKSTEP_ASSIGN_OR_RETURN(const FfiAny count, ask(-1));
  std::set<std::string> all;
  for (int64_t i = 0; i < count.get().v_int64; ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(const FfiAny name, ask(i));
    LOCKSTEP_ASSIGN_OR_RETURN(const Value text, FromFfi(name.get(), FfiArguments()));
    if (const auto* known = text.As<std::string>()) all.insert(*known);
  }
  return all;
}

StatusOr<std::set<std::string>> GlobalRegistrations() {
  std::set<std::string> all;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::set<std::string> functions, GlobalFunctionNames());
  for (const std::string& name : functions) all.insert("function \"" + name + "\"");
  LOCKSTEP_ASSIGN_OR_RETURN(const FfiAny types, CallFfiGlobal("ffi.GetRegisteredTypeKeys", {}));
  LOCKSTEP_ASSIGN_OR_RETURN(const Value keys, FromFfi(types.get(), FfiArguments()));
  if (const auto* list = keys.As<std::shared_ptr<const List>>()) {
    for (const Value& key : **list) {
      if (const auto* text = key.As<std::string>()) all.insert("type \"" + *text + "\"");
    }
  }
  return all;
}

}  // namespace lockstep::module
