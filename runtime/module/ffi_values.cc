#include "runtime/module/ffi_values.h"

#include <string>
#include <utility>

#include "runtime/module/ffi_callable.h"
#include "runtime/module/ffi_module.h"
#include "runtime/module/ffi_object.h"
#include "runtime/module/ffi_tensor.h"

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
  anys_.resize(args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    const Status converted = ConvertOne(args[i], Tensors::kLend, &anys_[i]);
    if (!converted.ok()) return Annotate(converted, "argument " + std::to_string(i + 1));
  }
  return OkStatus();
}

Status FfiArguments::ConvertOne(const Value& value, Tensors tensors, TVMFFIAny* any) {
  return std::visit(
      [&]<typename T>(const T& held) {
        if constexpr (std::is_same_v<T, None>) {
          any->type_index = kTVMFFINone;
        } else if constexpr (std::is_same_v<T, bool>) {
          any->type_index = kTVMFFIBool;
          any->v_int64 = held ? 1 : 0;
        } else if constexpr (std::is_same_v<T, int64_t>) {
          any->type_index = kTVMFFIInt;
          any->v_int64 = held;
        } else if constexpr (std::is_same_v<T, double>) {
          any->type_index = kTVMFFIFloat;
          any->v_float64 = held;
        } else if constexpr (std::is_same_v<T, std::string>) {
          return ConvertText(held, any);
        } else if constexpr (std::is_same_v<T, Bytes>) {
          any->type_index = kTVMFFIByteArrayPtr;
          any->v_ptr =
              &byte_arrays_.emplace_front(TVMFFIByteArray{held.data.data(), held.data.size()});
        } else if constexpr (std::is_same_v<T, DType>) {
          any->type_index = kTVMFFIDataType;
          any->v_dtype = tensor::ToDLPack(held);
        } else if constexpr (std::is_same_v<T, Device>) {
          any->type_index = kTVMFFIDevice;
          any->v_device = {static_cast<DLDeviceType>(held.type), held.index};
        } else if constexpr (std::is_same_v<T, Shape>) {
          return ConvertShape(held, any);
        } else if constexpr (std::is_same_v<T, tensor::Tensor>) {
          return ConvertTensor(held, tensors, any);
        } else if constexpr (std::is_same_v<T, std::shared_ptr<Object>>) {
          return ConvertObject(held, any);
        } else if constexpr (std::is_same_v<T, std::shared_ptr<const List>>) {
          return ConvertList(*held, any);
        } else {
          static_assert(std::is_same_v<T, std::shared_ptr<const Map>>);
          return ConvertMap(*held, any);
        }
        return OkStatus();
      },
      value.variant);
}

Status FfiArguments::ConvertText(const std::string& text, TVMFFIAny* any) {
  if (text.find('\0') == std::string::npos) {
    any->type_index = kTVMFFIRawStr;
    any->v_c_str = text.c_str();
    return OkStatus();
  }
  const TVMFFIByteArray bytes{text.data(), text.size()};
  FfiAny owned;
  LOCKSTEP_RETURN_IF_ERROR(CheckFfi(TVMFFIStringFromByteArray(&bytes, owned.out())));
  return Keep(std::move(owned), any);
}

Status FfiArguments::ConvertShape(const Shape& shape, TVMFFIAny* any) {
  absl::InlinedVector<TVMFFIAny, 8> dims;
  for (const int64_t dim : shape.dims()) {
    dims.push_back(MakeFfiAny(kTVMFFIInt));
    dims.back().v_int64 = dim;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(FfiAny made, CallFfiGlobal("ffi.Shape", dims));
  return Keep(std::move(made), any);
}

Status FfiArguments::ConvertTensor(const tensor::Tensor& tensor, Tensors tensors, TVMFFIAny* any) {
  if (tensor.IsNull()) return InvalidArgument("a null tensor cannot be passed to a function");
  if (tensors == Tensors::kLend) {
    any->type_index = kTVMFFIDLTensorPtr;
    if (IsAlignedForModules(tensor)) [[likely]] {
      any->v_ptr = tensor.dl();
      return OkStatus();
    }
    LOCKSTEP_ASSIGN_OR_RETURN(any->v_ptr, lent_.LendCopy(tensor, *allocator_));
    return OkStatus();
  }
  // It may be kept and changed later, so a copy would not do.
  if (!IsAlignedForModules(tensor)) {
    return InvalidArgument(
        "a view that does not begin at a multiple of ", tensor::Allocator::kAlignment,
        " bytes cannot be passed to a module inside a list or map, nor returned to it; pass ",
        "lockstep.copy of it, or the tensor by itself");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(FfiRef shared, ToFfiTensor(tensor));
  return Keep(std::move(shared), any);
}

Status FfiArguments::ConvertObject(const std::shared_ptr<Object>& object, TVMFFIAny* any) {
  const auto* ffi = dynamic_cast<const HasFfiObject*>(object.get());
  if (ffi == nullptr && object != nullptr && object->kind() == Object::Kind::kFunction) {
    LOCKSTEP_ASSIGN_OR_RETURN(FfiRef made,
                              ToFfiCallable(std::static_pointer_cast<Function>(object)));
    return Keep(std::move(made), any);
  }
  if (ffi == nullptr) {
    return InvalidArgument(object == nullptr ? "a null object" : object->Describe(),
                           " cannot be passed to a module's function: only functions, and what ",
                           "came from a module, can");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(FfiRef shared, ffi->ffi_object());
  return Keep(std::move(shared), any);
}

Status FfiArguments::ConvertList(const List& list, TVMFFIAny* any) {
  std::vector<TVMFFIAny> items(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    LOCKSTEP_RETURN_IF_ERROR(ConvertOne(list[i], Tensors::kShare, &items[i]));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(FfiAny made, CallFfiGlobal("ffi.Array", items));
  return Keep(std::move(made), any);
}

Status FfiArguments::ConvertMap(const Map& map, TVMFFIAny* any) {
  std::vector<TVMFFIAny> items;  // key, value, key, value, ...
  items.reserve(2 * map.size());
  for (const auto& [key, value] : map) {
    LOCKSTEP_RETURN_IF_ERROR(ConvertText(key, &items.emplace_back()));
    LOCKSTEP_RETURN_IF_ERROR(ConvertOne(value, Tensors::kShare, &items.emplace_back()));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(FfiAny made, CallFfiGlobal("ffi.Map", items));
  return Keep(std::move(made), any);
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

Status FfiArguments::Keep(FfiAny made, TVMFFIAny* any) {
  *any = made.get();
  kept_anys_.push_back(std::move(made));
  return OkStatus();
}

Status FfiArguments::Keep(FfiRef object, TVMFFIAny* any) {
  *any = BorrowFfiAny(object.get());
  kept_objects_.push_back(std::move(object));
  return OkStatus();
}

namespace {

using registers::Bytes;
using registers::List;
using registers::Map;
using registers::None;
using registers::Object;
using registers::Value;

// tvm-ffi's mutable lists can contain themselves.
constexpr int kMaxDepth = 32;

using Args = const FfiArguments&;

StatusOr<Value> Convert(const TVMFFIAny& any, Args args, int depth);

StatusOr<Value> ConvertDevice(DLDevice device) {
  if (device.device_type != kDLCPU && device.device_type != kDLCUDA) {
    return Internal("returned DLPack's device type ", device.device_type,
                    "; Lockstep knows cpu and cuda");
  }
  return Value(Device{static_cast<DeviceType>(device.device_type), device.device_id});
}

// A borrowed tensor can only be one that was lent for the call.
StatusOr<Value> ConvertBorrowedTensor(const void* dl, Args args) {
  const Value* lent = args.FindLent(dl);
  if (lent != nullptr) return *lent;
  return Internal("returned a borrowed tensor that is none of its arguments; return an owned one");
}

StatusOr<Value> ConvertList(TVMFFIObject* object, Args args, int depth) {
  const auto* cell = reinterpret_cast<const TVMFFISeqCell*>(object + 1);
  const auto* items = static_cast<const TVMFFIAny*>(cell->data);
  auto list = std::make_shared<List>();
  list->reserve(static_cast<size_t>(cell->size));
  for (int64_t i = 0; i < cell->size; ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(list->emplace_back(), Convert(items[i], args, depth + 1));
  }
  return Value(std::shared_ptr<const List>(std::move(list)));
}

// The C API shows the entries of a Map or Dict through an iterator, which is a function that takes
// a command: 0 gives the key, 1 the value, 2 moves on and tells whether there is another.
StatusOr<Value> ConvertMap(TVMFFIObject* object, const char* size_name, const char* iterator_name,
                           Args args, int depth) {
  enum Command : int64_t { kKey = 0, kValue = 1, kNext = 2 };
  const TVMFFIAny self = BorrowFfiAny(object);
  auto map = std::make_shared<Map>();
  LOCKSTEP_ASSIGN_OR_RETURN(const FfiAny size, CallFfiGlobal(size_name, {&self, 1}));
  FfiAny iterator;
  if (size.get().v_int64 > 0) {
    LOCKSTEP_ASSIGN_OR_RETURN(iterator, CallFfiGlobal(iterator_name, {&self, 1}));
  }
  const auto ask = [&](Command command) -> StatusOr<FfiAny> {
    TVMFFIAny arg = MakeFfiAny(kTVMFFIInt);
    arg.v_int64 = command;
    FfiAny answer;
    TVMFFIObject* function = iterator.get().v_obj;
    LOCKSTEP_RETURN_IF_ERROR(
        CallFfi(TVMFFIFunctionGetCellPtr(function)->safe_call, function, {&arg, 1}, &answer));
    return answer;
  };
  for (int64_t left = size.get().v_int64; left > 0; --left) {
    LOCKSTEP_ASSIGN_OR_RETURN(const FfiAny raw_key, ask(kKey));
    LOCKSTEP_ASSIGN_OR_RETURN(const Value key, Convert(raw_key.get(), args, depth + 1));
    const auto* text = key.As<std::string>();
    if (text == nullptr) {
      return Internal("returned a map with a key that is ", Describe(key), "; keys must be text");
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const FfiAny raw_value, ask(kValue));
    LOCKSTEP_ASSIGN_OR_RETURN((*map)[*text], Convert(raw_value.get(), args, depth + 1));
    LOCKSTEP_ASSIGN_OR_RETURN(const FfiAny more, ask(kNext));
  }
  return Value(std::shared_ptr<const Map>(std::move(map)));
}

StatusOr<Value> ConvertObject(TVMFFIObject* object, Args args, int depth) {
  switch (object->type_index) {
    case kTVMFFIStr: {
      const TVMFFIByteArray* bytes = TVMFFIBytesGetByteArrayPtr(object);
      return Value(std::string(bytes->data, bytes->size));
    }
    case kTVMFFIBytes: {
      const TVMFFIByteArray* bytes = TVMFFIBytesGetByteArrayPtr(object);
      return Value(Bytes{std::string(bytes->data, bytes->size)});
    }
    case kTVMFFIShape: {
      const TVMFFIShapeCell* cell = TVMFFIShapeGetCellPtr(object);
      return Value(Shape(absl::Span<const int64_t>(cell->data, cell->size)));
    }
    case kTVMFFITensor: {
      StatusOr<tensor::Tensor> tensor = FromFfiTensor(FfiRef::Share(object));
      if (!tensor.ok()) return Internal("returned ", Message(tensor.status()));
      return Value(*std::move(tensor));
    }
    case kTVMFFIArray:
    case kTVMFFIList:
      return ConvertList(object, args, depth);
    case kTVMFFIMap:
      return ConvertMap(object, "ffi.MapSize", "ffi.MapForwardIterFunctor", args, depth);
    case kTVMFFIDict:
      return ConvertMap(object, "ffi.DictSize", "ffi.DictForwardIterFunctor", args, depth);
    case kTVMFFIFunction:
      return Value(std::shared_ptr<Object>(
          std::make_shared<FfiFunction>("(returned by a module)", FfiRef::Share(object))));
    case kTVMFFIModule:
      return Value(std::shared_ptr<Object>(
          std::make_shared<FfiModule>("(returned by a module)", FfiRef::Share(object))));
    default:
      return Value(std::shared_ptr<Object>(std::make_shared<FfiOpaque>(FfiRef::Share(object))));
  }
}

StatusOr<Value> Convert(const TVMFFIAny& any, Args args, int depth) {
  if (depth > kMaxDepth) {
    return Internal("returned lists or maps nested deeper than ", kMaxDepth);
  }
  if (any.type_index >= kTVMFFIStaticObjectBegin) return ConvertObject(any.v_obj, args, depth);
  switch (any.type_index) {
    case kTVMFFINone:
      return Value(None());
    case kTVMFFIBool:
      return Value(any.v_int64 != 0);
    case kTVMFFIInt:
      return Value(any.v_int64);
    case kTVMFFIFloat:
      return Value(any.v_float64);
    case kTVMFFIDataType: {
      StatusOr<DType> dtype = tensor::FromDLPack(any.v_dtype);
      if (!dtype.ok()) return Internal("returned a dtype: ", Message(dtype.status()));
      return Value(*dtype);
    }
    case kTVMFFIDevice:
      return ConvertDevice(any.v_device);
    case kTVMFFIDLTensorPtr:
      return ConvertBorrowedTensor(any.v_ptr, args);
    case kTVMFFIRawStr:
      return Value(std::string(any.v_c_str));
    case kTVMFFIByteArrayPtr: {
      const auto* bytes = static_cast<const TVMFFIByteArray*>(any.v_ptr);
      return Value(Bytes{std::string(bytes->data, bytes->size)});
    }
    case kTVMFFISmallStr:
      return Value(std::string(any.v_bytes, any.small_str_len));
    case kTVMFFISmallBytes:
      return Value(Bytes{std::string(any.v_bytes, any.small_str_len)});
    default:
      return Internal("returned a value of tvm-ffi's type ", FfiTypeKey(any.type_index),
                      ", which no register can hold");
  }
}

}  // namespace

StatusOr<Value> FromFfi(const TVMFFIAny& any, const FfiArguments& arguments) {
  return Convert(any, arguments, 0);
}

Status ToFfi(const Value& value, TVMFFIAny* result) {
  FfiArguments kept;
  TVMFFIAny borrowed{};
  LOCKSTEP_RETURN_IF_ERROR(kept.ConvertOne(value, FfiArguments::Tensors::kShare, &borrowed));
  return CheckFfi(TVMFFIAnyViewToOwnedAny(&borrowed, result));
}

}  // namespace lockstep::module
