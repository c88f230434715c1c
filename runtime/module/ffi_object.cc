#include "runtime/module/ffi_object.h"

#include <cxxabi.h>

#include <cstring>
#include <exception>
#include <string>

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

bool BlamesArguments(const std::string& kind) {
  return kind == "TypeError" || kind == "ValueError" || kind == "IndexError";
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
  const StatusCode status_code =
      BlamesArguments(kind) ? StatusCode::kInvalidArgument : StatusCode::kInternal;
  return WithBacktrace(MakeStatus(status_code, "raised ", kind, ": ", ToString(cell->message)),
                       ToString(cell->backtrace));
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

Status CallFfi(TVMFFISafeCallType function, void* self, absl::Span<const TVMFFIAny> args,
               FfiAny* result) {
  try {
    return CheckFfi(function(self, args.data(), static_cast<int32_t>(args.size()), result->out()));
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
