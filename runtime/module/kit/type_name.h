// What the types of arguments are called in errors. Part of ffi_export.h.
#pragma once

#include <cstdint>
#include <string>

#include "tvm/ffi/c_api.h"

namespace lockstep::ffi {

// "text", "a list", "an object my.Type": of the type that a value has.
inline std::string NameOfType(int32_t type_index) {
  switch (type_index) {
    case kTVMFFINone:
      return "none";
    case kTVMFFIInt:
      return "an int";
    case kTVMFFIBool:
      return "a bool";
    case kTVMFFIFloat:
      return "a float";
    case kTVMFFIOpaquePtr:
      return "a pointer";
    case kTVMFFIDataType:
      return "a dtype";
    case kTVMFFIDevice:
      return "a device";
    case kTVMFFIDLTensorPtr:
    case kTVMFFITensor:
      return "a tensor";
    case kTVMFFIRawStr:
    case kTVMFFISmallStr:
    case kTVMFFIStr:
      return "text";
    case kTVMFFIByteArrayPtr:
    case kTVMFFISmallBytes:
    case kTVMFFIBytes:
      return "bytes";
    case kTVMFFIShape:
      return "a shape";
    case kTVMFFIFunction:
      return "a function";
    case kTVMFFIModule:
      return "a module";
    case kTVMFFIArray:
    case kTVMFFIList:
      return "a list";
    case kTVMFFIMap:
    case kTVMFFIDict:
      return "a map";
    default:
      break;
  }
  if (type_index >= kTVMFFIStaticObjectBegin) {
    const TVMFFITypeInfo* const info = TVMFFIGetTypeInfo(type_index);
    if (info != nullptr) {
      return "an object " + std::string(info->type_key.data, info->type_key.size);
    }
  }
  return "of tvm-ffi's type index " + std::to_string(type_index);
}

}  // namespace lockstep::ffi
