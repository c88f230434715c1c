#include "runtime/module/ffi_object.h"

namespace lockstep::module {

std::string FfiTypeKey(int32_t type_index) {
  const TVMFFITypeInfo* info = TVMFFIGetTypeInfo(type_index);
  if (info == nullptr) return "of type index " + std::to_string(type_index);
  return std::string(info->type_key.data, info->type_key.size);
}

std::string FfiOpaque::Describe() const {
  return "object " + FfiTypeKey(object_.get()->type_index);
}

}  // namespace lockstep::module
