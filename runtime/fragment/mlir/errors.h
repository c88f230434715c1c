// The one error that a compilation ends with: the first, with its place in the fragment.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Operation.h"
#include "runtime/fragment/mlir/compiler.h"

namespace lockstep::fragment {

struct Place {
  uint32_t line = 0;  // from 1; 0: unknown
  uint32_t column = 0;

  bool operator<(const Place& other) const {
    return std::pair(line, column) < std::pair(other.line, other.column);
  }
};

// Where in the fragment's text; of several places that were fused, the first.
Place PlaceOf(mlir::Location location);

// Listens to what MLIR reports of `context` while it lives.
class Errors {
 public:
  // `text` is read to name the operation of a syntax error; it may be bytecode.
  Errors(mlir::MLIRContext* context, std::string_view text);

  // What an error that MLIR reports from now on means.
  void set_code(StatusCode code) { code_ = code; }

  // Records an error of our own; always fails.
  mlir::LogicalResult Refuse(mlir::Operation* operation, StatusCode code, std::string message);
  mlir::LogicalResult Refuse(mlir::Location location, StatusCode code, std::string message);

  bool any() const { return first_.has_value(); }
  // The first error. One that says that `stage` has failed without a reason if there is none.
  Failure Take(const std::string& stage);

 private:
  void Record(mlir::Location location, StatusCode code, std::string message, std::string operation);

  std::string_view text_;
  StatusCode code_ = StatusCode::kInvalidArgument;
  std::optional<Failure> first_;
  mlir::ScopedDiagnosticHandler handler_;
};

}  // namespace lockstep::fragment
