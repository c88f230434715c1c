// For authors of modules: functions that Lockstep (or anything else that speaks tvm-ffi) can call.
//
//     #include "runtime/module/kit/ffi_export.h"
//
//     // Adds `step` to every element of x, in place.
//     LOCKSTEP_FFI_EXPORT(add_step, args, result) {
//       args.ExpectCount(2);
//       auto x = args.Tensor<float>(0, "x");
//       const auto step = static_cast<float>(args.Float(1, "step"));
//       for (float& element : x) element += step;
//     }
//
// Built as a shared library, this is function "add_step" of that module. It needs the C headers of
// tvm-ffi and nothing else: no library to link (the loading process provides the TVMFFI* symbols).
//
// Errors: throw ffi::Error, or let a std::exception escape the body; both become the error of the
//     call. Kinds "TypeError" and "ValueError" mean that the arguments are wrong, "MemoryError"
//     (and std::bad_alloc) that memory is missing; any other kind ("RuntimeError", ...) that the
//     function failed.
// Threads: several workers of one process may run the same function at the same time.
// Ownership: arguments are borrowed until the function returns.
#pragma once

#include <cstdint>
#include <exception>
#include <new>
#include <string_view>

#include "runtime/module/kit/args.h"
#include "runtime/module/kit/result.h"
#include "tvm/ffi/c_api.h"

// The body that follows defines the function. `args` is an ffi::Args&, `result` an ffi::Result&;
// the result is none unless it is set. Either may go unused.
#define LOCKSTEP_FFI_EXPORT(name, args, result)                                             \
  static void lockstep_ffi_body_##name([[maybe_unused]] const ::lockstep::ffi::Args& args,  \
                                       [[maybe_unused]] ::lockstep::ffi::Result& result);   \
  extern "C" __attribute__((visibility("default"))) int __tvm_ffi_##name(                   \
      void*, const TVMFFIAny* raw_args, int32_t count, TVMFFIAny* raw_result) {             \
    return ::lockstep::ffi::RunBody(lockstep_ffi_body_##name, raw_args, count, raw_result); \
  }                                                                                         \
  static void lockstep_ffi_body_##name([[maybe_unused]] const ::lockstep::ffi::Args& args,  \
                                       [[maybe_unused]] ::lockstep::ffi::Result& result)

// Says of a function that is defined so that it may be captured: a plan on GPUs may do again what
// one call has put into the GPU's stream (TVMFFIEnvGetStream, ffi::Kernels), without calling it. So
// it puts all that it does there, for tensors and literals alike each time; it waits for nothing,
// keeps nothing between calls, and fails only for what is wrong with its arguments.
#define LOCKSTEP_FFI_MAY_BE_CAPTURED(name)                                                      \
  extern "C" __attribute__((visibility("default"))) const char lockstep_may_be_captured_##name; \
  const char lockstep_may_be_captured_##name = 1

namespace lockstep::ffi {

// Makes `message` the error of the call. Without a stack: what was thrown has left it, and tvm-ffi
// would read the symbols of the whole process for it, which takes up to seconds.
inline void Raise(std::string_view kind, std::string_view message) {
  const TVMFFIByteArray kind_bytes{kind.data(), kind.size()};
  const TVMFFIByteArray message_bytes{message.data(), message.size()};
  const TVMFFIByteArray no_stack{"", 0};
  TVMFFIObjectHandle error = nullptr;
  if (TVMFFIErrorCreate(&kind_bytes, &message_bytes, &no_stack, &error) != 0) return;
  TVMFFIErrorSetRaised(error);
  TVMFFIObjectDecRef(error);
}

// Runs the body of one call and turns what it throws into the ABI's error. The macro's business.
template <typename Body>
int RunBody(Body body, const TVMFFIAny* args, int32_t count, TVMFFIAny* raw_result) {
  Result result(raw_result);
  try {
    body(Args(args, count), result);
    return 0;
  } catch (const AlreadyRaised&) {  // nothing to add
  } catch (const Error& error) {
    Raise(error.kind(), error.what());
  } catch (const std::bad_alloc&) {
    Raise("MemoryError", "there is not enough memory (std::bad_alloc)");
  } catch (const std::exception& error) {
    Raise("RuntimeError", error.what());
  } catch (...) {
    Raise("RuntimeError", "threw something that is no std::exception");
  }
  result.Release();
  return -1;
}

}  // namespace lockstep::ffi
