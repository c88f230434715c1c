#include "runtime/base/dtype.h"

#include <array>

namespace lockstep {

namespace {

struct Names {
  std::string_view canonical;
  std::string_view brief;
};

constexpr std::array<Names, kDTypeCount> kNames = {{
    {"bool", "b1"},
    {"int8", "i8"},
    {"uint8", "u8"},
    {"int16", "i16"},
    {"uint16", "u16"},
    {"int32", "i32"},
    {"uint32", "u32"},
    {"int64", "i64"},
    {"uint64", "u64"},
    {"float16", "f16"},
    {"bfloat16", "bf16"},
    {"float32", "f32"},
    {"float64", "f64"},
    {"float8_e4m3fn", "f8e4m3"},
    {"float8_e5m2", "f8e5m2"},
}};

}  // namespace

std::string_view Name(DType dtype) { return kNames[static_cast<size_t>(dtype)].canonical; }

StatusOr<DType> ParseDType(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i].canonical || name == kNames[i].brief) return static_cast<DType>(i);
  }
  std::string known;
  for (const Names& names : kNames) {
    known += known.empty() ? "" : ", ";
    known += names.canonical;
  }
  return InvalidArgument("unknown dtype \"", name, "\"; the dtypes are ", known);
}

StatusOr<DType> DTypeFromNumber(int number) {
  if (number < 0 || number >= kDTypeCount) {
    return InvalidArgument("unknown dtype number ", number, "; the highest is ", kDTypeCount - 1);
  }
  return static_cast<DType>(number);
}

}  // namespace lockstep
