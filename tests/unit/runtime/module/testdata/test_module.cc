// One function for each thing that module_test wants to see cross the C ABI.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/module/kit/ffi_export.h"

namespace ffi = lockstep::ffi;

// Adds 1 to every element, in place.
LOCKSTEP_FFI_EXPORT(add_one, args, result) {
  args.ExpectCount(1);
  for (float& element : args.Tensor<float>(0, "x")) element += 1;
}

LOCKSTEP_FFI_EXPORT(sum_ints, args, result) {
  int64_t sum = 0;
  for (int i = 0; i < args.count(); ++i) sum += args.Int(i, "addend");
  result.SetInt(sum);
}

LOCKSTEP_FFI_EXPORT(scale, args, result) {
  args.ExpectCount(3);
  const auto x = args.Tensor<double>(0, "x", {ffi::kAny, 2});
  const double factor = args.Float(1, "factor");
  if (args.Bool(2, "negate")) result.SetBool(true);
  const auto y = result.NewTensor<double>({x.dim(0), x.dim(1)});
  for (int64_t i = 0; i < x.size(); ++i) y[i] = factor * x[i];
}

LOCKSTEP_FFI_EXPORT(greet, args, result) {
  result.SetText("hello, " + std::string(args.Text(0, "name")));
}

LOCKSTEP_FFI_EXPORT(half, args, result) { result.SetFloat(args.Float(0, "x") / 2); }

LOCKSTEP_FFI_EXPORT(raise, args, result) {
  result.NewTensor<float>({1000});  // must not leak
  throw ffi::Error(std::string(args.Text(0, "kind")), std::string(args.Text(1, "message")));
}

// Adds 1 to every element of the first tensor; the second is only looked at.
LOCKSTEP_FFI_EXPORT(add_one_beside, args, result) {
  for (float& element : args.Tensor<float>(0, "x")) element += 1;
  result.SetFloat(args.Tensor<float>(1, "y")[0]);
}

// Adds the second tensor to the first.
LOCKSTEP_FFI_EXPORT(add_to, args, result) {
  auto x = args.Tensor<float>(0, "x");
  const auto y = args.Tensor<float>(1, "y");
  for (int64_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

// Changes the first element, and then fails.
LOCKSTEP_FFI_EXPORT(change_and_throw, args, result) {
  args.Tensor<float>(0, "x")[0] = -1;
  throw std::runtime_error("half way");
}

// A function that nothing can end, on one rank: the others are told that theirs is another.
LOCKSTEP_FFI_EXPORT(stall, args, result) {
  if (args.Int(1, "own rank") != args.Int(2, "rank")) return;
  std::this_thread::sleep_for(std::chrono::duration<double>(args.Float(0, "seconds")));
}
// The same until the file is removed; none for an empty path.
LOCKSTEP_FFI_EXPORT(stall_while_exists, args, result) {
  const std::string file(args.Text(0, "file"));
  while (!file.empty() && std::filesystem::exists(file)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

LOCKSTEP_FFI_EXPORT(throw_std, args, result) { throw std::runtime_error("out of luck"); }
LOCKSTEP_FFI_EXPORT(throw_bad_alloc, args, result) { throw std::bad_alloc(); }

namespace {

int MakeTensorView(TVMFFIObject* source, int64_t* shape, int64_t* strides, TVMFFIAny* result) {
  DLTensor view = *TVMFFITensorGetDLTensorPtr(source);
  view.shape = shape;
  view.strides = strides;
  TVMFFIObjectHandle made = nullptr;
  const int code = TVMFFITensorCreateUnsafeView(source, &view, &made);
  if (code == 0) {
    result->type_index = kTVMFFITensor;
    result->v_obj = static_cast<TVMFFIObject*>(made);
  }
  return code;
}

int Twice(void*, const TVMFFIAny* args, int32_t, TVMFFIAny* result) {
  result->type_index = kTVMFFIInt;
  result->v_int64 = 2 * args[0].v_int64;
  return 0;
}

}  // namespace

// The extents in the opposite order, and a tensor of that shape.
LOCKSTEP_FFI_EXPORT(reverse_shape, args, result) {
  const std::vector<int64_t> extents = args.Shape(0, "shape");
  result.SetShape({extents.rbegin(), extents.rend()});
}
LOCKSTEP_FFI_EXPORT(zeros, args, result) {
  for (float& element : result.NewTensor<float>(args.Shape(0, "shape"))) element = 0;
}

// The rest is written against the bare C convention.

// Registered for the whole process, as compiled libraries do.
[[maybe_unused]] static const bool is_registered = [] {
  constexpr std::string_view kName = "lockstep_test.twice";
  const TVMFFIByteArray name{kName.data(), kName.size()};
  TVMFFIObjectHandle function = nullptr;
  const bool made = TVMFFIFunctionCreate(nullptr, Twice, nullptr, &function) == 0 &&
                    TVMFFIFunctionSetGlobal(&name, function, /*override=*/1) == 0;
  TVMFFIObjectDecRef(function);
  return made;
}();

// The stack is the runtime's business.
extern "C" int __tvm_ffi_raise_plainly(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) {
  TVMFFIErrorSetRaisedFromCStr("ValueError", "no");
  return -1;
}

// Returns its argument. Borrowed text and bytes become owned, as the convention wants.
extern "C" int __tvm_ffi_echo(void*, const TVMFFIAny* args, int32_t, TVMFFIAny* result) {
  return TVMFFIAnyViewToOwnedAny(&args[0], result);
}

extern "C" int __tvm_ffi_type_index(void*, const TVMFFIAny* args, int32_t, TVMFFIAny* result) {
  result->type_index = kTVMFFIInt;
  result->v_int64 = args[0].type_index;
  return 0;
}

// Returns a Function object.
extern "C" int __tvm_ffi_make_function(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  TVMFFIObjectHandle function = nullptr;
  const int code = TVMFFIFunctionCreate(nullptr, Twice, nullptr, &function);
  result->type_index = kTVMFFIFunction;
  result->v_obj = static_cast<TVMFFIObject*>(function);
  return code;
}

// Calls the function that is its first argument with the second.
extern "C" int __tvm_ffi_call(void*, const TVMFFIAny* args, int32_t, TVMFFIAny* result) {
  TVMFFIAny arg = args[1];
  return TVMFFIFunctionCall(args[0].v_obj, &arg, 1, result);
}

// The transposed view of a 2-d tensor object, which is not row-major.
extern "C" int __tvm_ffi_transpose_first(void*, const TVMFFIAny* args, int32_t, TVMFFIAny* result) {
  const auto* list = reinterpret_cast<const TVMFFISeqCell*>(args[0].v_obj + 1);
  TVMFFIObject* tensor = static_cast<const TVMFFIAny*>(list->data)[0].v_obj;
  const DLTensor* dl = TVMFFITensorGetDLTensorPtr(tensor);
  int64_t shape[] = {dl->shape[1], dl->shape[0]};
  int64_t strides[] = {1, dl->shape[1]};
  return MakeTensorView(tensor, shape, strides, result);
}

// An object of a type that Lockstep has no name for.
extern "C" int __tvm_ffi_make_opaque(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  static int target = 0;
  TVMFFIObjectHandle object = nullptr;
  const int code = TVMFFIObjectCreateOpaque(
      &target, kTVMFFIOpaquePyObject, [](void*) {}, &object);
  result->type_index = kTVMFFIOpaquePyObject;
  result->v_obj = static_cast<TVMFFIObject*>(object);
  return code;
}

// The same again, so that a test can see an argument arrive whole.
extern "C" int __tvm_ffi_is_opaque(void*, const TVMFFIAny* args, int32_t, TVMFFIAny* result) {
  result->type_index = kTVMFFIBool;
  result->v_int64 = args[0].type_index == kTVMFFIOpaquePyObject ? 1 : 0;
  return 0;
}

// Results that no register can hold.
extern "C" int __tvm_ffi_raw_pointer(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  result->type_index = kTVMFFIOpaquePtr;
  result->v_ptr = nullptr;
  return 0;
}
extern "C" int __tvm_ffi_stray_tensor(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  static DLTensor stray{};
  result->type_index = kTVMFFIDLTensorPtr;
  result->v_ptr = &stray;
  return 0;
}
extern "C" int __tvm_ffi_complex_dtype(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  result->type_index = kTVMFFIDataType;
  result->v_dtype = {kDLComplex, 64, 1};
  return 0;
}

// How far its argument, a tensor, is from a multiple of 64 bytes.
extern "C" int __tvm_ffi_misalignment(void*, const TVMFFIAny* args, int32_t, TVMFFIAny* result) {
  const auto* dl = static_cast<const DLTensor*>(args[0].v_ptr);
  const auto address = reinterpret_cast<uintptr_t>(dl->data) + dl->byte_offset;
  result->type_index = kTVMFFIInt;
  result->v_int64 = static_cast<int64_t>(address % 64);
  return 0;
}

// Returns the tensor that it was lent.
extern "C" int __tvm_ffi_give_back(void*, const TVMFFIAny* args, int32_t, TVMFFIAny* result) {
  *result = args[0];
  return 0;
}

// A tensor float32 [4] on a GPU that is not there, at an address that nothing can be read from.
extern "C" int __tvm_ffi_make_cuda_tensor(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  static int64_t shape[] = {4};
  static int64_t strides[] = {1};
  // Made once: workers that are threads share it.
  static DLManagedTensorVersioned managed = [] {
    DLManagedTensorVersioned tensor{};
    tensor.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    tensor.deleter = [](DLManagedTensorVersioned*) {};
    tensor.dl_tensor = {
        reinterpret_cast<void*>(64), {kDLCUDA, 0}, 1, {kDLFloat, 32, 1}, shape, strides, 0};
    return tensor;
  }();
  TVMFFIObjectHandle made = nullptr;
  const int code = TVMFFITensorFromDLPackVersioned(&managed, 0, 0, &made);
  result->type_index = kTVMFFITensor;
  result->v_obj = static_cast<TVMFFIObject*>(made);
  return code;
}

// Asks for a tensor where this worker has none.
extern "C" int __tvm_ffi_allocate_elsewhere(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) {
  DLTensor prototype{};
  prototype.device = {kDLCUDA, 5};
  prototype.dtype = {kDLFloat, 32, 1};
  TVMFFIObjectHandle tensor = nullptr;
  return TVMFFIEnvTensorAlloc(&prototype, &tensor);
}

// (tensor): ranks that are threads of one process tell each other something beside all that the
// cluster does: await_mark returns when mark was called, and takes the mark away.
static std::atomic<int> marks{0};
LOCKSTEP_FFI_EXPORT(mark, args, result) {
  (void)args.Tensor<int32_t>(0, "tensor");
  ++marks;
}
LOCKSTEP_FFI_EXPORT(await_mark, args, result) {
  (void)args.Tensor<int32_t>(0, "tensor");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (marks.load() == 0) {
    if (std::chrono::steady_clock::now() > end) throw ffi::Error("TimeoutError", "nobody marks");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  --marks;
}

// Does not ask whether it is aborted.
extern "C" int __tvm_ffi_stay(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) {
  while (true) std::this_thread::sleep_for(std::chrono::hours(1));
}

// Breaks the convention: lets an exception through.
extern "C" int __tvm_ffi_escape(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) {
  throw std::runtime_error("over the wall");
}
extern "C" int __tvm_ffi_escape_int(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) { throw 42; }
// Breaks it too: fails and raises nothing.
extern "C" int __tvm_ffi_silent(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) { return -1; }

// An error with a backtrace.
extern "C" int __tvm_ffi_raise_with_backtrace(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) {
  const auto bytes = [](const char* text) {
    return TVMFFIByteArray{text, std::char_traits<char>::length(text)};
  };
  const TVMFFIByteArray kind = bytes("ValueError");
  const TVMFFIByteArray message = bytes("bad");
  const TVMFFIByteArray backtrace = bytes("  File \"kernel.py\", line 7");
  TVMFFIObjectHandle error = nullptr;
  if (TVMFFIErrorCreate(&kind, &message, &backtrace, &error) != 0) return -2;
  TVMFFIErrorSetRaised(error);
  TVMFFIObjectDecRef(error);
  return -1;
}
