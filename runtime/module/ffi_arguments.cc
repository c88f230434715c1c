#include "runtime/module/ffi_call.h"
#include "runtime/module/ffi_tensor.h"
#include "runtime/module/ffi_values.h"

namespace lockstep::module {

using registers::Bytes;
using registers::List;
using registers::Map;
using registers::None;
using registers::Object;
using registers::Value;

Status FfiArguments::Convert(absl::Span<const Value> args, tensor::Allocator* allocator) {
  args_ = args;
  allocator_ = allocator;
  anys_.reserve(args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    StatusOr<TVMFFIAny> any = ConvertOne(args[i], Tensors::kLend);
    if (!any.ok()) return Annotate(any.status(), "argument " + std::to_string(i + 1));
    anys_.push_back(*any);
  }
  return OkStatus();
}

StatusOr<TVMFFIAny> FfiArguments::ConvertOne(const Value& value, Tensors tensors) {
  return std::visit(
      [&]<typename T>(const T& held) -> StatusOr<TVMFFIAny> {
        if constexpr (std::is_same_v<T, None>) {
          return MakeFfiAny(kTVMFFINone);
        } else if constexpr (std::is_same_v<T, bool>) {
          TVMFFIAny any = MakeFfiAny(kTVMFFIBool);
          any.v_int64 = held ? 1 : 0;
          return any;
        } else if constexpr (std::is_same_v<T, int64_t>) {
          TVMFFIAny any = MakeFfiAny(kTVMFFIInt);
          any.v_int64 = held;
          return any;
        } else if constexpr (std::is_same_v<T, double>) {
          TVMFFIAny any = MakeFfiAny(kTVMFFIFloat);
          any.v_float64 = held;
          return any;
        } else if constexpr (std::is_same_v<T, std::string>) {
          return ConvertText(held);
        } else if constexpr (std::is_same_v<T, Bytes>) {
          TVMFFIAny any = MakeFfiAny(kTVMFFIByteArrayPtr);
          any.v_ptr =
              &byte_arrays_.emplace_front(TVMFFIByteArray{held.data.data(), held.data.size()});
          return any;
        } else if constexpr (std::is_same_v<T, DType>) {
          TVMFFIAny any = MakeFfiAny(kTVMFFIDataType);
          any.v_dtype = tensor::ToDLPack(held);
          return any;
        } else if constexpr (std::is_same_v<T, Device>) {
          TVMFFIAny any = MakeFfiAny(kTVMFFIDevice);
          any.v_device = {static_cast<DLDeviceType>(held.type), held.index};
          return any;
        } else if constexpr (std::is_same_v<T, Shape>) {
          return ConvertShape(held);
        } else if constexpr (std::is_same_v<T, tensor::Tensor>) {
          return ConvertTensor(held, tensors);
        } else if constexpr (std::is_same_v<T, std::shared_ptr<Object>>) {
          return ConvertObject(held.get());
        } else if constexpr (std::is_same_v<T, std::shared_ptr<const List>>) {
          return ConvertList(*held);
        } else {
          static_assert(std::is_same_v<T, std::shared_ptr<const Map>>);
          return ConvertMap(*held);
        }
      },
      value.variant);
}

StatusOr<TVMFFIAny> FfiArguments::ConvertText(const std::string& text) {
  if (text.find('\0') == std::string::npos) {
    TVMFFIAny any = MakeFfiAny(kTVMFFIRawStr);
    any.v_c_str = text.c_str();
    return any;
  }
  const TVMFFIByteArray bytes{text.data(), text.size()};
  FfiAny owned;
  LOCKSTEP_RETURN_IF_ERROR(CheckFfi(TVMFFIStringFromByteArray(&bytes, owned.out())));
  return Keep(std::move(owned));
}

StatusOr<TVMFFIAny> FfiArguments::ConvertShape(const Shape& shape) {
  absl::InlinedVector<TVMFFIAny, 8> dims;
  for (const int64_t dim : shape.dims()) {
    dims.push_back(MakeFfiAny(kTVMFFIInt));
    dims.back().v_int64 = dim;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(FfiAny made, CallFfiGlobal("ffi.Shape", dims));
  return Keep(std::move(made));
}

StatusOr<TVMFFIAny> FfiArguments::ConvertTensor(const tensor::Tensor& tensor, Tensors tensors) {
  if (tensor.IsNull()) return InvalidArgument("a null tensor cannot be passed to a function");
  if (tensors == Tensors::kLend) {
    TVMFFIAny any = MakeFfiAny(kTVMFFIDLTensorPtr);
    LOCKSTEP_ASSIGN_OR_RETURN(any.v_ptr, lent_.Lend(tensor, *allocator_));
    return any;
  }
  // It may be kept and changed later, so a copy would not do.
  if (!IsAlignedForModules(tensor)) {
    return InvalidArgument("a view that does not begin at a multiple of ",
                           tensor::Allocator::kAlignment,
                           " bytes cannot be passed to a module inside a list or map; pass ",
                           "lockstep.copy of it, or the tensor by itself");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(FfiRef shared, ToFfiTensor(tensor));
  return Keep(std::move(shared));
}

StatusOr<TVMFFIAny> FfiArguments::ConvertObject(const Object* object) {
  const auto* ffi = dynamic_cast<const HasFfiObject*>(object);
  if (ffi == nullptr) {
    return InvalidArgument(object == nullptr ? "a null object" : object->Describe(),
                           " cannot be passed to a module's function: only what came from a ",
                           "module can");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(FfiRef shared, ffi->ffi_object());
  return Keep(std::move(shared));
}

StatusOr<TVMFFIAny> FfiArguments::ConvertList(const List& list) {
  std::vector<TVMFFIAny> items;
  items.reserve(list.size());
  for (const Value& value : list) {
    LOCKSTEP_ASSIGN_OR_RETURN(items.emplace_back(), ConvertOne(value, Tensors::kShare));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(FfiAny made, CallFfiGlobal("ffi.Array", items));
  return Keep(std::move(made));
}

StatusOr<TVMFFIAny> FfiArguments::ConvertMap(const Map& map) {
  std::vector<TVMFFIAny> items;  // key, value, key, value, ...
  items.reserve(2 * map.size());
  for (const auto& [key, value] : map) {
    LOCKSTEP_ASSIGN_OR_RETURN(items.emplace_back(), ConvertText(key));
    LOCKSTEP_ASSIGN_OR_RETURN(items.emplace_back(), ConvertOne(value, Tensors::kShare));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(FfiAny made, CallFfiGlobal("ffi.Map", items));
  return Keep(std::move(made));
}

const Value* FfiArguments::FindLent(const void* dl) const {
  const tensor::Tensor* original = lent_.OriginalOf(dl);
  for (const Value& arg : args_) {
    const auto* tensor = arg.As<tensor::Tensor>();
    if (tensor == nullptr) continue;
    if (tensor->dl() == (original == nullptr ? dl : original->dl())) return &arg;
  }
  return nullptr;
}

TVMFFIAny FfiArguments::Keep(FfiAny any) {
  const TVMFFIAny borrowed = any.get();
  kept_anys_.push_back(std::move(any));
  return borrowed;
}

TVMFFIAny FfiArguments::Keep(FfiRef object) {
  const TVMFFIAny borrowed = BorrowFfiAny(object.get());
  kept_objects_.push_back(std::move(object));
  return borrowed;
}

}  // namespace lockstep::module
