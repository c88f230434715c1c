#include "runtime/module/ffi_callable.h"

#include <cstddef>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "runtime/module/ffi_tensor.h"
#include "runtime/module/ffi_values.h"

namespace lockstep::module {
namespace {

using registers::Value;

StatusOr<Value> ConvertArgument(const TVMFFIAny& any, const FfiArguments& lent) {
  if (any.type_index == kTVMFFIDLTensorPtr && lent.IsLentAsCopy(any.v_ptr)) {
    return InvalidArgument("is a view that does not begin at a multiple of ",
                           tensor::Allocator::kAlignment,
                           " bytes, which a module cannot pass on; pass it lockstep.copy of it");
  }
  return FromFfi(any, lent);
}

Status CallBuiltin(Function& function, absl::Span<const TVMFFIAny> anys, TVMFFIAny* result) {
  const FfiEnvironment* const environment = FfiEnvironment::Current();
  if (environment == nullptr) {
    return FailedPrecondition(
        "can be called only by a module's function, while it runs and on its "
        "thread");
  }
  std::vector<Value> args;
  args.reserve(anys.size());
  for (size_t i = 0; i < anys.size(); ++i) {
    StatusOr<Value> arg = ConvertArgument(anys[i], environment->arguments());
    if (!arg.ok()) return InvalidArgument("argument ", i + 1, " ", Message(arg.status()));
    args.push_back(*std::move(arg));
  }
  Value returned;
  LOCKSTEP_RETURN_IF_ERROR(function.Call(environment->context(), args, &returned));
  return ToFfi(returned, result);
}

int SafeCall(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  auto& function = **static_cast<std::shared_ptr<Function>*>(self);
  Status status;
  try {
    status = CallBuiltin(function, {args, static_cast<size_t>(count)}, result);
  } catch (const std::exception& error) {
    status = Internal(error.what());
  }
  if (status.ok()) return 0;
  RaiseFfi(FfiKindOf(status), function.name() + ": " + Message(status));
  return -1;
}

void Delete(void* self) { delete static_cast<std::shared_ptr<Function>*>(self); }

}  // namespace

StatusOr<FfiRef> ToFfiCallable(std::shared_ptr<Function> function) {
  auto self = std::make_unique<std::shared_ptr<Function>>(std::move(function));
  TVMFFIObjectHandle made = nullptr;
  LOCKSTEP_RETURN_IF_ERROR(CheckFfi(TVMFFIFunctionCreate(self.get(), SafeCall, Delete, &made)));
  (void)self.release();  // the object's, which deletes it
  return FfiRef::Adopt(made);
}

}  // namespace lockstep::module
