#include "runtime/fragment/mlir/types.h"

#include "llvm/Support/raw_ostream.h"
#include "mlir/IR/BuiltinTypes.h"
#include "runtime/fragment/mlir/compiler.h"

namespace lockstep::fragment {

std::string TextOf(mlir::Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

std::optional<DType> DTypeOfElement(mlir::Type element) {
  if (element.isF32()) return DType::kFloat32;
  if (element.isF64()) return DType::kFloat64;
  if (element.isSignlessInteger(32)) return DType::kInt32;
  if (element.isSignlessInteger(64)) return DType::kInt64;
  if (element.isSignlessInteger(1)) return DType::kBool;
  return std::nullopt;
}

int64_t BytesOfElement(mlir::Type element) {
  return element.isIndex() ? 8 : (element.getIntOrFloatBitWidth() + 7) / 8;
}

std::string WhyUnsupported(mlir::Type type) {
  const auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type);
  const mlir::Type element = tensor ? tensor.getElementType() : type;
  if (!DTypeOfElement(element).has_value() && !element.isIndex()) {
    return "type " + TextOf(type) +
           " is not supported: fragments compute with f32, f64, i32, i64 and i1, and " +
           "ranked tensors of them";
  }
  if (!tensor) return "";
  if (tensor.getEncoding())
    return "type " + TextOf(type) + " has an encoding, which is not supported";
  if (tensor.getRank() > kMaxRank) {
    return "a tensor of rank " + std::to_string(tensor.getRank()) + " has more than " +
           std::to_string(kMaxRank) + " dimensions";
  }
  constexpr int64_t kMaxElements = int64_t{1} << 56;
  int64_t elements = 1;
  for (const int64_t extent : tensor.getShape()) {
    if (mlir::ShapedType::isDynamic(extent) || extent == 0) continue;
    if (extent > kMaxElements / elements)
      return "type " + TextOf(type) + " has more elements than any memory holds";
    elements *= extent;
  }
  return "";
}

}  // namespace lockstep::fragment
