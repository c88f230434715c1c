#include "runtime/fragment/mlir/errors.h"

#include <cctype>

#include "mlir/IR/Location.h"

namespace lockstep::fragment {
namespace {

bool IsNameCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The first "dialect.operation" in `text`, or an empty text: digits begin numbers, and not
// dialects.
std::string FirstOperationIn(std::string_view text) {
  for (size_t dot = text.find('.'); dot != std::string_view::npos; dot = text.find('.', dot + 1)) {
    size_t begin = dot;
    size_t end = dot + 1;
    while (begin > 0 && IsNameCharacter(text[begin - 1])) --begin;
    while (end < text.size() && (IsNameCharacter(text[end]) || text[end] == '.')) ++end;
    while (end > dot + 1 && text[end - 1] == '.') --end;
    const bool is_value =
        begin > 0 && std::string_view("%#@^$").find(text[begin - 1]) != std::string_view::npos;
    if (begin < dot && end > dot + 1 && !is_value &&
        std::isalpha(static_cast<unsigned char>(text[begin])) &&
        std::isalpha(static_cast<unsigned char>(text[dot + 1]))) {
      return std::string(text.substr(begin, end - begin));
    }
  }
  return "";
}

// What the failure at that column of a line is about: an operation that begins there, or the first
// one of the line. `return` alone is written without its dialect.
std::string OperationAt(std::string_view line, uint32_t column) {
  if (column > 0 && column <= line.size()) {
    const std::string there = FirstOperationIn(line.substr(column - 1));
    if (!there.empty() && line.substr(column - 1, there.size()) == there) return there;
  }
  std::string first = FirstOperationIn(line);
  if (!first.empty()) return first;
  constexpr std::string_view kReturn = "return";
  const size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string_view::npos || line.substr(begin, kReturn.size()) != kReturn) return "";
  const bool ends = line.size() == begin + kReturn.size();
  return ends || !IsNameCharacter(line[begin + kReturn.size()]) ? "func.return" : "";
}

std::string_view LineOf(std::string_view text, uint32_t line) {
  for (; line > 1; --line) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

}  // namespace

Place PlaceOf(mlir::Location location) {
  if (const auto file = mlir::dyn_cast<mlir::FileLineColLoc>(location)) {
    return {file.getLine(), file.getColumn()};
  }
  if (const auto name = mlir::dyn_cast<mlir::NameLoc>(location)) return PlaceOf(name.getChildLoc());
  if (const auto call = mlir::dyn_cast<mlir::CallSiteLoc>(location))
    return PlaceOf(call.getCallee());
  if (const auto fused = mlir::dyn_cast<mlir::FusedLoc>(location)) {
    for (const mlir::Location part : fused.getLocations()) {
      const Place place = PlaceOf(part);
      if (place.line != 0) return place;
    }
  }
  return {};
}

Errors::Errors(mlir::MLIRContext* context, std::string_view text)
    : text_(text), handler_(context, [this](mlir::Diagnostic& diagnostic) {
        if (diagnostic.getSeverity() != mlir::DiagnosticSeverity::Error) return;
        std::string message = diagnostic.str();
        std::string operation;
        // MLIR begins what it says of an operation with its name: 'arith.addf' op requires ...
        if (!message.empty() && message[0] == '\'') operation = FirstOperationIn(message);
        Record(diagnostic.getLocation(), code_, std::move(message), std::move(operation));
      }) {}

mlir::LogicalResult Errors::Refuse(mlir::Operation* operation, StatusCode code,
                                   std::string message) {
  Record(operation->getLoc(), code, std::move(message), operation->getName().getStringRef().str());
  return mlir::failure();
}

mlir::LogicalResult Errors::Refuse(mlir::Location location, StatusCode code, std::string message) {
  Record(location, code, std::move(message), "");
  return mlir::failure();
}

void Errors::Record(mlir::Location location, StatusCode code, std::string message,
                    std::string operation) {
  if (first_.has_value()) return;
  const Place place = PlaceOf(location);
  if (operation.empty() && place.line != 0) {
    operation = OperationAt(LineOf(text_, place.line), place.column);
  }
  first_ = Failure{code, std::move(message), place.line, place.column, std::move(operation)};
}

Failure Errors::Take(const std::string& stage) {
  if (first_.has_value()) return *std::exchange(first_, std::nullopt);
  return {StatusCode::kInternal, stage + " failed, and gave no reason"};
}

}  // namespace lockstep::fragment
