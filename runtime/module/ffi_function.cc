#include "runtime/module/ffi_function.h"

#include <utility>

#include "runtime/module/ffi_call.h"
#include "runtime/module/ffi_tensor.h"
#include "runtime/module/ffi_values.h"

namespace lockstep::module {

Status FfiFunction::Call(const CallContext& context, absl::Span<const registers::Value> args,
                         registers::Value* result) {
  FfiArguments arguments;
  LOCKSTEP_RETURN_IF_ERROR(arguments.Convert(args, &context.host->allocator()));
  FfiAny returned;
  {
    const FfiEnvironment environment(context);
    const Status status = CallFfi(call_, object_.get(), arguments.anys(), &returned);
    arguments.BringBack();
    LOCKSTEP_RETURN_IF_ERROR(status);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(*result, FromFfi(returned.get(), arguments));
  return OkStatus();
}

StatusOr<FfiRef> FfiFunction::ffi_object() const {
  if (object_) return object_;
  TVMFFIObjectHandle handle = nullptr;
  LOCKSTEP_RETURN_IF_ERROR(
      CheckFfi(TVMFFIFunctionCreate(/*self=*/nullptr, call_, /*deleter=*/nullptr, &handle)));
  return FfiRef::Adopt(handle);
}

}  // namespace lockstep::module
