#include "tools/cli/program/compare.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "tools/cli/value_text.h"

namespace lockstep::cli::program {
namespace {

using Mismatch = std::optional<std::string>;

template <typename... Parts>
std::string Text(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

bool Equal(const Number& actual, const Number& expected, double tolerance) {
  // Integers are compared as such: a double would take neighbours beyond 2^53 for equal.
  const auto is_integer = [](const Number& number) {
    return std::holds_alternative<int64_t>(number) || std::holds_alternative<uint64_t>(number);
  };
  if (is_integer(actual) && is_integer(expected) && tolerance == 0) return actual == expected;
  const double a = ToDouble(actual);
  const double e = ToDouble(expected);
  if (a == e || (std::isnan(a) && std::isnan(e))) return true;
  return std::fabs(a - e) <= tolerance * std::max(1.0, std::fabs(e));
}

// `expected(i)` is element i.
template <typename Expected>
Mismatch CompareElements(const HostTensor& actual, double tolerance, Expected expected) {
  const int64_t count = actual.shape.NumElements();
  int64_t first = -1;
  int64_t different = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (Equal(ElementAt(actual, i), expected(i), tolerance)) continue;
    if (first < 0) first = i;
    ++different;
  }
  if (different == 0) return std::nullopt;
  std::string text =
      Text("element ", Coordinates(actual.shape, first), actual.shape.ndim() == 0 ? "" : " ", "is ",
           ToString(ElementAt(actual, first)), ", expected ", ToString(expected(first)));
  if (count > 1) text += Text(" (", different, " of ", count, " elements differ)");
  return text;
}

// Scalars as numbers; nothing for everything else.
std::optional<Number> AsNumber(const Value& value) {
  if (const auto* flag = value.As<bool>()) return Number(*flag);
  if (const auto* integer = value.As<int64_t>()) return Number(*integer);
  if (const auto* real = value.As<double>()) return Number(*real);
  return std::nullopt;
}

Mismatch CompareNumbers(const NumberArray& expected, const Value& actual, double tolerance) {
  const bool one_number = expected.shape.ndim() == 0;
  if (const auto* tensor = actual.As<HostTensor>()) {
    if (!one_number && tensor->shape != expected.shape) {
      return Text("the shape is ", tensor->shape, ", expected ", expected.shape);
    }
    return CompareElements(*tensor, tolerance, [&](int64_t i) {
      return expected.numbers[one_number ? 0 : static_cast<size_t>(i)];
    });
  }
  if (const std::optional<Number> number = AsNumber(actual); number.has_value() && one_number) {
    if (Equal(*number, expected.numbers[0], tolerance)) return std::nullopt;
    return Text("it is ", ToString(*number), ", expected ", ToString(expected.numbers[0]));
  }
  // A list of whole numbers may also mean a shape, and any list of numbers a list.
  std::vector<Number> items;
  if (const auto* shape = actual.As<Shape>()) {
    items.assign(shape->dims().begin(), shape->dims().end());
  } else if (const auto* list = actual.As<Value::List>()) {
    for (const Value& item : *list) {
      const std::optional<Number> number = AsNumber(item);
      if (number.has_value()) items.push_back(*number);
    }
    if (items.size() != list->size()) return Text("it is ", Render(actual), ", expected numbers");
  } else {
    return Text("it is ", Render(actual), ", expected ",
                one_number ? "a number" : Text("numbers of shape ", expected.shape));
  }
  const bool same =
      expected.shape.ndim() == 1 && items.size() == expected.numbers.size() &&
      std::equal(items.begin(), items.end(), expected.numbers.begin(),
                 [&](const Number& a, const Number& e) { return Equal(a, e, tolerance); });
  if (same) return std::nullopt;
  std::string wanted;
  for (const Number& number : expected.numbers) {
    wanted += (wanted.empty() ? "" : ", ") + ToString(number);
  }
  return Text("it is ", Render(actual), ", expected [", wanted, "]");
}

Mismatch CompareValues(const Value& expected, const Value& actual, double tolerance) {
  const auto* wanted = expected.As<HostTensor>();
  const auto* found = actual.As<HostTensor>();
  if (wanted != nullptr && found != nullptr) {
    if (wanted->dtype != found->dtype) {
      return Text("the dtype is ", found->dtype, ", expected ", wanted->dtype);
    }
    if (wanted->shape != found->shape) {
      return Text("the shape is ", found->shape, ", expected ", wanted->shape);
    }
    return CompareElements(*found, tolerance, [&](int64_t i) { return ElementAt(*wanted, i); });
  }
  if (actual == expected) return std::nullopt;
  return Text("it is ", Render(actual), ", expected ", Render(expected));
}

}  // namespace

std::optional<std::string> Difference(const ExpectStep& expect,
                                      const std::optional<ExpectedValue>& expected,
                                      const Value& actual) {
  if (expect.shape.has_value() || expect.dtype.has_value()) {
    const auto* tensor = actual.As<HostTensor>();
    if (tensor == nullptr) return Text("it is ", Render(actual), ", expected a tensor");
    if (expect.shape.has_value() && tensor->shape != *expect.shape) {
      return Text("the shape is ", tensor->shape, ", expected ", *expect.shape);
    }
    if (expect.dtype.has_value() && tensor->dtype != *expect.dtype) {
      return Text("the dtype is ", tensor->dtype, ", expected ", *expect.dtype);
    }
  }
  if (!expected.has_value()) return std::nullopt;
  if (const auto* numbers = std::get_if<NumberArray>(&*expected)) {
    return CompareNumbers(*numbers, actual, expect.tolerance);
  }
  return CompareValues(std::get<Value>(*expected), actual, expect.tolerance);
}

}  // namespace lockstep::cli::program
