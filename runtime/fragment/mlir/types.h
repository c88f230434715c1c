// Which types fragments are made of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "mlir/IR/Types.h"
#include "runtime/base/dtype.h"

namespace lockstep::fragment {

// As MLIR writes it.
std::string TextOf(mlir::Type type);

// Of f32, f64, i32, i64 and i1; nothing of all others.
std::optional<DType> DTypeOfElement(mlir::Type element);

// In memory. An index has 8.
int64_t BytesOfElement(mlir::Type element);

// Why a value of this type cannot be in a fragment; empty if it can.
std::string WhyUnsupported(mlir::Type type);

}  // namespace lockstep::fragment
