// Values between Lockstep and tvm-ffi.
//
//     Lockstep         as an argument              as a result
//     none             None                        None
//     bool             Bool                        Bool
//     int64            Int                         Int
//     float64          Float                       Float
//     text             RawStr (Str if it has       RawStr, SmallStr, Str
//                      zero bytes)
//     bytes            ByteArrayPtr                ByteArrayPtr, SmallBytes, Bytes
//     dtype, device    DataType, Device            DataType, Device
//     shape            Shape                       Shape
//     tensor           DLTensorPtr (in a list or   Tensor; DLTensorPtr if it is one of the
//                      map: Tensor)                arguments
//     list, map        Array, Map                  Array, List; Map, Dict with text keys
//     function, also a Function                    Function
//     built-in one
//     module, object   the object itself           Module, any other object
#pragma once

#include <cstddef>
#include <forward_list>
#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/module/ffi_object.h"
#include "runtime/module/ffi_tensor.h"
#include "runtime/registers/value.h"

namespace lockstep::module {

// The arguments of one call as the C convention wants them. Borrows the Values; keeps what it had
// to make for them until it is destroyed. Scalars, text, bytes and aligned tensors allocate
// nothing.
class FfiArguments {
 public:
  FfiArguments() = default;
  FfiArguments(const FfiArguments&) = delete;
  FfiArguments& operator=(const FfiArguments&) = delete;

  // kInvalidArgument names the argument that has no form in tvm-ffi. Copies of misaligned tensors
  // (ffi_tensor.h) come from `allocator`.
  Status Convert(absl::Span<const registers::Value> args, tensor::Allocator* allocator);

  absl::Span<const TVMFFIAny> anys() const { return anys_; }

  // To be called after the function: brings back what it changed in tensors that it was lent as
  // copies.
  void BringBack() const { lent_.BringBack(); }

  // The argument that was lent as `dl`; null if none was.
  const registers::Value* FindLent(const void* dl) const;
  // True of a tensor whose changes are still to be brought back.
  bool IsLentAsCopy(const void* dl) const { return lent_.OriginalOf(dl) != nullptr; }

 private:
  friend Status ToFfi(const registers::Value& value, TVMFFIAny* result);

  // Tensors at the top are lent for the call; those inside a list or map may be kept by it.
  enum class Tensors { kLend, kShare };
  // Sets `*any`, which was none.
  Status ConvertOne(const registers::Value& value, Tensors tensors, TVMFFIAny* any);
  Status ConvertText(const std::string& text, TVMFFIAny* any);
  Status ConvertShape(const Shape& shape, TVMFFIAny* any);
  Status ConvertTensor(const tensor::Tensor& tensor, Tensors tensors, TVMFFIAny* any);
  Status ConvertObject(const std::shared_ptr<registers::Object>& object, TVMFFIAny* any);
  Status ConvertList(const registers::List& list, TVMFFIAny* any);
  Status ConvertMap(const registers::Map& map, TVMFFIAny* any);
  // Keeps `made` or `object` alive, and sets `*any` to what borrows it.
  Status Keep(FfiAny made, TVMFFIAny* any);
  Status Keep(FfiRef object, TVMFFIAny* any);

  absl::Span<const registers::Value> args_;
  tensor::Allocator* allocator_ = nullptr;
  LentCopies lent_;
  absl::InlinedVector<TVMFFIAny, 8> anys_;
  std::vector<FfiAny> kept_anys_;
  std::vector<FfiRef> kept_objects_;
  std::forward_list<TVMFFIByteArray> byte_arrays_;  // never move
};

// What a function returned, as a Value. `arguments` are the call's, of which a returned DLTensorPtr
// must be one. kInternal names a result that no register can hold.
StatusOr<registers::Value> FromFfi(const TVMFFIAny& any, const FfiArguments& arguments);

// The other way: sets `*result`, which was none, to what a module may keep. kInvalidArgument for a
// value that has no form in tvm-ffi, or is a misaligned view.
Status ToFfi(const registers::Value& value, TVMFFIAny* result);

}  // namespace lockstep::module
