#include "tools/cli/tensor_text.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "runtime/base/float_convert.h"

namespace lockstep::cli {
namespace {

// Calls `visitor` with a value of the C++ type of `dtype`'s elements.
template <typename Visitor>
auto WithElementType(DType dtype, Visitor&& visitor) {
  switch (dtype) {
    case DType::kBool:
      return visitor(bool{});
    case DType::kInt8:
      return visitor(int8_t{});
    case DType::kUInt8:
      return visitor(uint8_t{});
    case DType::kInt16:
      return visitor(int16_t{});
    case DType::kUInt16:
      return visitor(uint16_t{});
    case DType::kInt32:
      return visitor(int32_t{});
    case DType::kUInt32:
      return visitor(uint32_t{});
    case DType::kInt64:
      return visitor(int64_t{});
    case DType::kUInt64:
      return visitor(uint64_t{});
    case DType::kFloat16:
      return visitor(Float16{});
    case DType::kBFloat16:
      return visitor(BFloat16{});
    case DType::kFloat32:
      return visitor(float{});
    case DType::kFloat64:
      return visitor(double{});
    case DType::kFloat8E4M3:
      return visitor(Float8E4M3{});
    case DType::kFloat8E5M2:
      break;
  }
  return visitor(Float8E5M2{});
}

template <typename T>
std::optional<T> ConvertTo(const Number& number) {
  if constexpr (std::is_same_v<T, bool>) {
    if (const bool* flag = std::get_if<bool>(&number)) return *flag;
    const double value = ToDouble(number);
    if (value != 0 && value != 1) return std::nullopt;
    return value == 1;
  } else if constexpr (std::is_integral_v<T>) {
    const auto narrow = [](auto integer) -> std::optional<T> {
      if (!std::in_range<T>(integer)) return std::nullopt;
      return static_cast<T>(integer);
    };
    if (const double* real = std::get_if<double>(&number)) {
      // "2.0" and "1e3" are integers too, as long as a double counts exactly.
      constexpr double kExact = 9007199254740992.0;
      if (*real != std::trunc(*real) || !(std::fabs(*real) <= kExact)) return std::nullopt;
      return narrow(static_cast<int64_t>(*real));
    }
    if (const uint64_t* large = std::get_if<uint64_t>(&number)) return narrow(*large);
    if (const int64_t* integer = std::get_if<int64_t>(&number)) return narrow(*integer);
    return static_cast<T>(std::get<bool>(number));
  } else if constexpr (kIsNarrowFloat<T>) {
    return NarrowTo<T>(ToDouble(number));
  } else {
    return static_cast<T>(ToDouble(number));
  }
}

}  // namespace

StatusOr<std::optional<Number>> ParseNumber(std::string_view text) {
  if (text == "true" || text == "false") return Number(text == "true");
  std::string_view digits = text;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.empty() || digits.front() == '-') return std::optional<Number>();

  int base = 10;
  std::string_view integer_digits = digits;
  if (digits.starts_with("0x") || digits.starts_with("0X")) {
    base = 16;
    integer_digits.remove_prefix(2);
  }
  uint64_t magnitude = 0;
  const char* end = integer_digits.data() + integer_digits.size();
  const auto integer = std::from_chars(integer_digits.data(), end, magnitude, base);
  if (integer.ptr == end && !integer_digits.empty()) {
    constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
    if (integer.ec == std::errc::result_out_of_range || (negative && magnitude > kMost + 1)) {
      return OutOfRange(text, " does not fit into 64 bits",
                        base == 16 ? "" : "; write " + std::string(text) + ".0 for a float64");
    }
    if (!negative && magnitude > kMost) return Number(magnitude);
    return Number(static_cast<int64_t>(negative ? 0 - magnitude : magnitude));
  }

  if (base == 16) return std::optional<Number>();
  double value = 0;
  end = digits.data() + digits.size();
  const auto real = std::from_chars(digits.data(), end, value);
  if (real.ptr != end || real.ec == std::errc::invalid_argument) return std::optional<Number>();
  if (real.ec == std::errc::result_out_of_range) {
    return OutOfRange(text, " does not fit into a float64");
  }
  return Number(negative ? -value : value);
}

double ToDouble(const Number& number) {
  return std::visit([](auto value) { return static_cast<double>(value); }, number);
}

std::string ToString(const Number& number) {
  if (const bool* flag = std::get_if<bool>(&number)) return *flag ? "true" : "false";
  if (const int64_t* integer = std::get_if<int64_t>(&number)) return std::to_string(*integer);
  if (const uint64_t* large = std::get_if<uint64_t>(&number)) return std::to_string(*large);
  // As few digits as give the same number back, but no exponent where six digits do.
  const double value = std::get<double>(number);
  const bool is_float = static_cast<double>(static_cast<float>(value)) == value;
  char text[40];
  for (int digits = 6; digits <= 17; ++digits) {
    std::snprintf(text, sizeof(text), "%.*g", digits, value);
    const double back = std::strtod(text, nullptr);
    if (back == value || (is_float && static_cast<float>(back) == static_cast<float>(value))) break;
  }
  return text;
}

StatusOr<HostTensor> MakeTensor(DType dtype, const NumberArray& array) {
  LOCKSTEP_RETURN_IF_ERROR(array.shape.Validate(SizeOf(dtype)));
  if (array.shape.NumElements() != static_cast<int64_t>(array.numbers.size())) {
    return InvalidArgument("a tensor of shape ", array.shape, " has ", array.shape.NumElements(),
                           " elements, but there are ", array.numbers.size(), " numbers");
  }
  HostTensor tensor{dtype, array.shape, std::string(array.numbers.size() * SizeOf(dtype), '\0')};
  return WithElementType(dtype, [&]<typename T>(T) -> StatusOr<HostTensor> {
    for (size_t i = 0; i < array.numbers.size(); ++i) {
      const std::optional<T> element = ConvertTo<T>(array.numbers[i]);
      if (!element.has_value()) {
        return InvalidArgument(dtype, " cannot hold ", ToString(array.numbers[i]), " (element ", i,
                               ")");
      }
      std::memcpy(tensor.data.data() + i * sizeof(T), &*element, sizeof(T));
    }
    return std::move(tensor);
  });
}

Number ElementAt(const HostTensor& tensor, int64_t index) {
  return WithElementType(tensor.dtype, [&]<typename T>(T element) -> Number {
    const size_t offset = static_cast<size_t>(index) * sizeof(T);
    if constexpr (std::is_same_v<T, bool>) {
      return tensor.data[offset] != 0;
    } else {
      std::memcpy(&element, tensor.data.data() + offset, sizeof(T));
      if constexpr (std::is_same_v<T, uint64_t>) {
        if (element > std::numeric_limits<int64_t>::max()) return element;
        return static_cast<int64_t>(element);
      } else if constexpr (std::is_integral_v<T>) {
        return static_cast<int64_t>(element);
      } else if constexpr (kIsNarrowFloat<T>) {
        return static_cast<double>(ToFloat(element));
      } else {
        return static_cast<double>(element);
      }
    }
  });
}

std::string Coordinates(const Shape& shape, int64_t index) {
  if (shape.ndim() == 0) return "";
  Shape coordinates = shape;
  for (int axis = shape.ndim() - 1; axis >= 0; --axis) {
    coordinates[axis] = index % shape[axis];
    index /= shape[axis];
  }
  return coordinates.ToString();
}

}  // namespace lockstep::cli
