#include "runtime/module/ffi_object.h"

#include <cxxabi.h>

#include <cstring>
#include <exception>
#include <string>

#include "runtime/module/ffi_stack.h"

namespace lockstep::module {

std::string FfiTypeKey(int32_t type_index) {
  const TVMFFITypeInfo* info = TVMFFIGetTypeInfo(type_index);
  if (info == nullptr) return "of type index " + std::to_string(type_index);
  return std::string(info->type_key.data, info->type_key.size);
}

std::string FfiOpaque::Describe() const {
  return "object " + FfiTypeKey(object_.get()->type_index);
}

namespace {

std::string ToString(const TVMFFIByteArray& bytes) {
  return bytes.size == 0 ? std::string() : std::string(bytes.data, bytes.size);
}

StatusCode CodeOf(const std::string& kind) {
  if (kind == "TypeError" || kind == "ValueError" || kind == "IndexError") {
    return StatusCode::kInvalidArgument;
  }
  return kind == "MemoryError" ? StatusCode::kResourceExhausted : StatusCode::kInternal;
}

}  // namespace

Status CheckFfi(int code) {
  if (code == 0) [[likely]]
    return OkStatus();
  TVMFFIObjectHandle handle = nullptr;
  TVMFFIErrorMoveFromRaised(&handle);
  if (handle == nullptr) return Internal("failed with code ", code, " and raised no error");
  const FfiRef error = FfiRef::Adopt(handle);
  const TVMFFIErrorCell* cell = TVMFFIErrorGetCellPtr(error.get());
  const std::string kind = ToString(cell->kind);
  return WithBacktrace(MakeStatus(CodeOf(kind), "raised ", kind, ": ", ToString(cell->message)),
                       ToString(cell->backtrace));
}

const char* FfiKindOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
      return "ValueError";
    case StatusCode::kResourceExhausted:
      return "MemoryError";
    default:
      return "RuntimeError";
  }
}

void RaiseFfi(std::string_view kind, std::string_view message) {
  const TVMFFIByteArray kind_bytes{kind.data(), kind.size()};
  const TVMFFIByteArray message_bytes{message.data(), message.size()};
  const TVMFFIByteArray no_stack{"", 0};
  TVMFFIObjectHandle error = nullptr;
  if (TVMFFIErrorCreate(&kind_bytes, &message_bytes, &no_stack, &error) != 0) return;
  TVMFFIErrorSetRaised(error);
  TVMFFIObjectDecRef(error);
}

namespace {

// A frame of its own, above that of CallFfi(), as OwnFrames() expects.
__attribute__((noinline)) Status WithOwnFrames(Status status) {
  const std::string stack = Backtrace(status);
  if (stack.empty()) return status;
  const std::string here = ToString(*TVMFFIBacktrace(nullptr, 0, nullptr, 0));
  status.ErasePayload(kBacktracePayload);
  return WithBacktrace(std::move(status), OwnFrames(stack, here));
}

}  // namespace

__attribute__((noinline)) Status CallFfi(TVMFFISafeCallType function, void* self,
                                         absl::Span<const TVMFFIAny> args, FfiAny* result) {
  try {
    const int code = function(self, args.data(), static_cast<int32_t>(args.size()), result->out());
    if (code == 0) [[likely]]
      return OkStatus();
    return WithOwnFrames(CheckFfi(code));
  } catch (const std::exception& error) {
    return Internal("threw an exception across the C boundary: ", error.what());
  } catch (const abi::__forced_unwind&) {
    throw;  // the thread is being cancelled; who swallows that is ended by the C library
  } catch (...) {
    return Internal("threw something that is no std::exception across the C boundary");
  }
}

StatusOr<FfiAny> CallFfiGlobal(const char* name, absl::Span<const TVMFFIAny> args) {
  const TVMFFIByteArray bytes{name, std::strlen(name)};
  TVMFFIObjectHandle handle = nullptr;
  LOCKSTEP_RETURN_IF_ERROR(CheckFfi(TVMFFIFunctionGetGlobal(&bytes, &handle)));
  if (handle == nullptr) {
    return Unimplemented("this version of the tvm-ffi runtime has no function ", name);
  }
  const FfiRef function = FfiRef::Adopt(handle);
  FfiAny result;
  LOCKSTEP_RETURN_IF_ERROR(
      CallFfi(TVMFFIFunctionGetCellPtr(function.get())->safe_call, function.get(), args, &result));
  return result;
}

}  // namespace lockstep::module
