// Compiled as several versions of one module: VERSION is a number, SHARES says whether it has a
// variable that the dynamic linker shares among all libraries of the process.
#include <cstdlib>
#include <string_view>

#include "runtime/module/kit/ffi_export.h"

static int calls = 0;

LOCKSTEP_FFI_EXPORT(version, args, result) { result.SetInt(VERSION); }
LOCKSTEP_FFI_EXPORT(count_calls, args, result) { result.SetInt(++calls); }

#if SHARES
// What g++ makes of `inline int`, and clang does not.
asm(R"(
  .pushsection .data
  .type lockstep_test_shared, @gnu_unique_object
  .size lockstep_test_shared, 4
lockstep_test_shared:
  .long 3
  .popsection
)");
#endif

static int GiveVersion(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  result->type_index = kTVMFFIInt;
  result->v_int64 = VERSION;
  return 0;
}

// Registers a function for the whole process when it is loaded, if the environment names one.
[[maybe_unused]] static const bool is_registered = [] {
  const char* const text = std::getenv("LOCKSTEP_TEST_REGISTERS");
  if (text == nullptr) return false;
  const std::string_view view(text);
  const TVMFFIByteArray name{view.data(), view.size()};
  TVMFFIObjectHandle function = nullptr;
  const bool made = TVMFFIFunctionCreate(nullptr, GiveVersion, nullptr, &function) == 0 &&
                    TVMFFIFunctionSetGlobal(&name, function, /*override=*/0) == 0;
  TVMFFIObjectDecRef(function);
  return made;
}();
