// Lockstep's dtypes as DLPack spells them.
#include "runtime/tensor/tensor.h"

namespace lockstep::tensor {
namespace {

// In the order of DType.
constexpr DLDataType kDLPackTypes[kDTypeCount] = {
    {kDLBool, 8, 1},   {kDLInt, 8, 1},           {kDLUInt, 8, 1},        {kDLInt, 16, 1},
    {kDLUInt, 16, 1},  {kDLInt, 32, 1},          {kDLUInt, 32, 1},       {kDLInt, 64, 1},
    {kDLUInt, 64, 1},  {kDLFloat, 16, 1},        {kDLBfloat, 16, 1},     {kDLFloat, 32, 1},
    {kDLFloat, 64, 1}, {kDLFloat8_e4m3fn, 8, 1}, {kDLFloat8_e5m2, 8, 1},
};

const char* CodeName(uint8_t code) {
  switch (code) {
    case kDLInt:
      return "int";
    case kDLUInt:
      return "uint";
    case kDLFloat:
      return "float";
    case kDLBfloat:
      return "bfloat";
    case kDLBool:
      return "bool";
    case kDLComplex:
      return "complex";
    case kDLOpaqueHandle:
      return "handle";
    default:
      return "another type";
  }
}

}  // namespace

DLDataType ToDLPack(DType dtype) { return kDLPackTypes[static_cast<size_t>(dtype)]; }

StatusOr<DType> FromDLPack(DLDataType dtype) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DLDataType& known = kDLPackTypes[i];
    if (known.code == dtype.code && known.bits == dtype.bits && known.lanes == dtype.lanes) {
      return static_cast<DType>(i);
    }
  }
  return InvalidArgument("Lockstep has no dtype for DLPack's ", CodeName(dtype.code), " (code ",
                         +dtype.code, ") of ", +dtype.bits, " bits and ", dtype.lanes, " lanes");
}

}  // namespace lockstep::tensor
