// Built-in functions that make tensors.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>

#include "runtime/module/builtins.h"
#include "runtime/tensor/element.h"

namespace lockstep::module {
namespace {

using registers::Describe;
using registers::Value;
using tensor::ConvertElement;
using tensor::Tensor;

// fp8 is moved and cast, but not computed with.
void RequireArithmetic(ArgReader& in, DType dtype) {
  if (!IsArithmetic(dtype)) {
    in.Reject("is " + std::string(Name(dtype)) + ", which can only be cast to; make a float32 " +
              "tensor and use lockstep.cast");
  }
}

// True if a T holds the number exactly.
template <typename T>
bool Holds(const Number& number) {
  if (number.is_int) {
    const auto back = ConvertElement<int64_t>(ConvertElement<T>(number.int_value));
    return back == number.int_value && (!std::is_unsigned_v<T> || number.int_value >= 0);
  }
  // Conversions saturate, and the largest 64-bit integers come back as 2^63 or 2^64.
  if (std::is_integral_v<T> &&
      number.float_value >= std::ldexp(1.0, std::numeric_limits<T>::digits)) {
    return false;
  }
  return ConvertElement<double>(ConvertElement<T>(number.float_value)) == number.float_value;
}

std::string TextOf(const Number& number) {
  if (number.is_int) return std::to_string(number.int_value);
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", number.float_value);
  return text;
}

// Rejects the argument read last if `dtype` is bool or an integer that cannot hold `number`.
void RequireFits(ArgReader& in, const Number& number, DType dtype) {
  if (IsFloat(dtype)) return;
  const bool fits = tensor::VisitDType(
      dtype, [&]<typename T>(std::type_identity<T>) { return Holds<T>(number); });
  if (fits) return;
  in.Reject("is " + std::string(Name(dtype)) + ", which cannot hold " + TextOf(number));
}

Number FiniteNumber(ArgReader& in, std::string_view name) {
  const Number number = in.AnyNumber(name);
  if (!std::isfinite(number.AsDouble())) in.Reject("must be finite");
  return number;
}

// The optional last argument: where the tensor is made.
tensor::Processor& PlaceIn(const CallContext& context, ArgReader& in) {
  if (!in.HasNext()) return context.Home();
  tensor::Processor* const place = context.Of(in.ReachableDevice("device"));
  return place != nullptr ? *place : context.Home();  // refused by Finish()
}

Status Empty(const CallContext& context, ArgReader& in, Value* result) {
  const Shape shape = in.TensorShape("shape");
  const DType dtype = in.Dtype("dtype");
  tensor::Processor& place = PlaceIn(context, in);
  LOCKSTEP_RETURN_IF_ERROR(in.Finish());
  LOCKSTEP_ASSIGN_OR_RETURN(*result, Tensor::Empty(place.allocator(), dtype, shape));
  return OkStatus();
}

Status Full(const CallContext& context, ArgReader& in, Value* result) {
  const Shape shape = in.TensorShape("shape");
  const Number value = in.AnyNumber("value");
  const DType dtype = in.Dtype("dtype");
  RequireArithmetic(in, dtype);
  RequireFits(in, value, dtype);
  tensor::Processor& place = PlaceIn(context, in);
  LOCKSTEP_RETURN_IF_ERROR(in.Finish());
  LOCKSTEP_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Empty(place.allocator(), dtype, shape));
  uint64_t pattern = 0;
  tensor::VisitDType(dtype, [&]<typename T>(std::type_identity<T>) {
    const T element =
        value.is_int ? ConvertElement<T>(value.int_value) : ConvertElement<T>(value.float_value);
    std::memcpy(&pattern, &element, sizeof element);
  });
  LOCKSTEP_RETURN_IF_ERROR(place.Fill(tensor.buffer(), pattern));
  *result = std::move(tensor);
  return OkStatus();
}

// How many of begin, begin + step, ... lie before `end`. Exact for ints.
int64_t CountSteps(const Number& begin, const Number& end, const Number& step) {
  if (begin.is_int && end.is_int && step.is_int) {
    const __int128 span = static_cast<__int128>(end.int_value) - begin.int_value;
    const __int128 stride = step.int_value;
    if (span == 0 || (span > 0) != (stride > 0)) return 0;
    const __int128 magnitude = span > 0 ? span : -span;
    const __int128 stride_magnitude = stride > 0 ? stride : -stride;
    const __int128 count = (magnitude + stride_magnitude - 1) / stride_magnitude;
    return static_cast<int64_t>(std::min<__int128>(count, INT64_MAX));
  }
  const double count = std::ceil((end.AsDouble() - begin.AsDouble()) / step.AsDouble());
  return ConvertElement<int64_t>(std::max(count, 0.0));
}

Status Arange(const CallContext& context, ArgReader& in, Value* result) {
  const Number begin = FiniteNumber(in, "begin");
  const Number end = FiniteNumber(in, "end");
  const Number step = FiniteNumber(in, "step");
  if (step.AsDouble() == 0) in.Reject("must not be 0");
  const DType dtype = in.Dtype("dtype");
  RequireArithmetic(in, dtype);
  tensor::Processor& place = PlaceIn(context, in);
  LOCKSTEP_RETURN_IF_ERROR(in.Finish());

  const Shape shape{CountSteps(begin, end, step)};
  tensor::Steps steps;
  steps.exact = begin.is_int && step.is_int;
  // Modulo 2^64: the sum lies between begin and end, but the product may not fit.
  steps.int_begin = static_cast<uint64_t>(begin.int_value);
  steps.int_step = static_cast<uint64_t>(step.int_value);
  steps.float_begin = begin.AsDouble();
  steps.float_step = step.AsDouble();
  const auto at = [&](int64_t i) -> Number {
    const auto index = static_cast<uint64_t>(i);
    return steps.exact ? Number{true, steps.At<int64_t>(index), 0}
                       : Number{false, 0, steps.At<double>(index)};
  };
  if (shape[0] > 0) {  // if both ends fit, all between them do
    RequireFits(in, at(0), dtype);
    RequireFits(in, at(shape[0] - 1), dtype);
    LOCKSTEP_RETURN_IF_ERROR(in.Finish());
  }
  LOCKSTEP_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Empty(place.allocator(), dtype, shape));
  LOCKSTEP_RETURN_IF_ERROR(place.Arange(tensor, steps));
  *result = std::move(tensor);
  return OkStatus();
}

constexpr Builtin kCreationBuiltins[] = {
    {"lockstep.empty", Empty, kNoTarget, kCaptured},
    {"lockstep.full", Full, kNoTarget, kCaptured},
    {"lockstep.arange", Arange, kNoTarget, kCaptured},
};

}  // namespace

absl::Span<const Builtin> CreationBuiltins() { return kCreationBuiltins; }

}  // namespace lockstep::module
