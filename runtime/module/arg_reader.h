// Reads the arguments of one call in order, by type and name.
//
//     ArgReader in(args);
//     const Tensor tensor = in.ReachableTensor("tensor");
//     const int64_t axis = in.Int("axis");
//     LOCKSTEP_RETURN_IF_ERROR(in.Finish());
//
// The first thing that is wrong is remembered and returned by Finish(); until then the readers
// return empty values, which a function uses for nothing else before it has called Finish().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/registers/value.h"
#include "runtime/tensor/tensor.h"

namespace lockstep::module {

// An int64 or a float64, as it came; a bool is the int64 0 or 1.
struct Number {
  bool is_int = true;
  int64_t int_value = 0;
  double float_value = 0;

  double AsDouble() const { return is_int ? static_cast<double>(int_value) : float_value; }
};

// Threads: one. Ownership: borrows the arguments.
// Errors: kInvalidArgument naming the argument's number (from 1) and name, what was expected, and
//         what came.
class ArgReader {
 public:
  // `has_gpu`: the worker has one.
  explicit ArgReader(absl::Span<const registers::Value> args, bool has_gpu = false)
      : args_(args), has_gpu_(has_gpu) {}

  int64_t Int(std::string_view name);
  double Float(std::string_view name);  // takes an int64 too
  Number AnyNumber(std::string_view name);
  std::string Text(std::string_view name);
  DType Dtype(std::string_view name);        // a dtype, or its name as text
  Shape TensorShape(std::string_view name);  // a shape, or a list of int64; validated
  // A tensor in host memory, or on the worker's GPU.
  tensor::Tensor ReachableTensor(std::string_view name);
  // A device, or its name as text: one that the worker has.
  Device ReachableDevice(std::string_view name);
  registers::Value Any(std::string_view name);

  bool has_gpu() const { return has_gpu_; }

  // An int64 in [0, end).
  int64_t IndexBelow(std::string_view name, int64_t end);

  // True if another argument is there, and is not none: for optional ones.
  bool HasNext() const { return next_ < args_.size() && !args_[next_].Is<registers::None>(); }
  bool NextIsList() const;
  // Records an error about the argument read last: `argument 2 ("axis") <problem>`.
  void Reject(const std::string& problem);

  // The first error: of an argument, or that there are more arguments than were read (trailing
  // nones are optional arguments that were left out).
  Status Finish();

 private:
  // The next argument, or null (and an error) if there is none.
  const registers::Value* Next(std::string_view name);
  // Its value as a T, or null and an error that says `expected`.
  template <typename T>
  const T* NextAs(std::string_view name, std::string_view expected);
  bool Reaches(Device device) const { return device.type == DeviceType::kCpu || has_gpu_; }
  void RejectType(std::string_view expected, const registers::Value& value);

  absl::Span<const registers::Value> args_;
  const bool has_gpu_;
  size_t next_ = 0;
  std::string last_name_;
  std::string names_;  // of all that were asked for, for the message about the count
  Status status_;
};

}  // namespace lockstep::module
