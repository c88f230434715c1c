#include "runtime/module/arg_reader.h"

#include <vector>

namespace lockstep::module {

using registers::List;
using registers::None;
using registers::Value;

const Value* ArgReader::Next(std::string_view name) {
  last_name_ = name;
  names_ += (names_.empty() ? "" : ", ") + last_name_;
  const size_t index = next_++;
  if (index < args_.size()) return &args_[index];
  Reject("is missing");
  return nullptr;
}

template <typename T>
const T* ArgReader::NextAs(std::string_view name, std::string_view expected) {
  const Value* value = Next(name);
  if (value == nullptr) return nullptr;
  const T* as = value->As<T>();
  if (as == nullptr) RejectType(expected, *value);
  return as;
}

void ArgReader::RejectType(std::string_view expected, const Value& value) {
  Reject("must be " + std::string(expected) + ", not " + Describe(value));
}

void ArgReader::Reject(const std::string& problem) {
  if (!status_.ok()) return;
  status_ = InvalidArgument("argument ", next_, " (\"", last_name_, "\") ", problem);
}

Status ArgReader::Finish() {
  size_t given = args_.size();
  while (given > next_ && args_[given - 1].Is<None>()) --given;
  if (status_.ok() && given > next_) {
    status_ = InvalidArgument("expected ", next_, next_ == 1 ? " argument (" : " arguments (",
                              names_, "), got ", given);
  }
  return status_;
}

int64_t ArgReader::Int(std::string_view name) {
  const auto* value = NextAs<int64_t>(name, "an int64");
  return value == nullptr ? 0 : *value;
}

double ArgReader::Float(std::string_view name) { return AnyNumber(name).AsDouble(); }

Number ArgReader::AnyNumber(std::string_view name) {
  const Value* value = Next(name);
  if (value == nullptr) return {};
  if (const auto* number = value->As<int64_t>()) return {true, *number, 0};
  if (const auto* number = value->As<double>()) return {false, 0, *number};
  if (const auto* flag = value->As<bool>()) return {true, *flag ? 1 : 0, 0};
  RejectType("a number", *value);
  return {};
}

std::string ArgReader::Text(std::string_view name) {
  const auto* value = NextAs<std::string>(name, "text");
  return value == nullptr ? std::string() : *value;
}

DType ArgReader::Dtype(std::string_view name) {
  const Value* value = Next(name);
  if (value == nullptr) return {};
  if (const auto* dtype = value->As<DType>()) return *dtype;
  if (const auto* text = value->As<std::string>()) {
    const StatusOr<DType> dtype = ParseDType(*text);
    if (dtype.ok()) return *dtype;
    Reject("is no dtype: " + Message(dtype.status()));
    return {};
  }
  RejectType("a dtype", *value);
  return {};
}

Shape ArgReader::TensorShape(std::string_view name) {
  const Value* value = Next(name);
  if (value == nullptr) return {};
  Shape shape;
  if (const auto* given = value->As<Shape>()) {
    shape = *given;
  } else if (const auto* list = value->As<std::shared_ptr<const List>>()) {
    std::vector<int64_t> dims;
    for (const Value& item : **list) {
      const auto* dim = item.As<int64_t>();
      if (dim == nullptr) {
        RejectType("a shape or a list of int64", *value);
        return {};
      }
      dims.push_back(*dim);
    }
    shape = Shape(dims);
  } else {
    RejectType("a shape or a list of int64", *value);
    return {};
  }
  if (const Status valid = shape.Validate(); !valid.ok()) {
    Reject("is invalid: " + Message(valid));
    return {};
  }
  return shape;
}

tensor::Tensor ArgReader::ReachableTensor(std::string_view name) {
  const auto* tensor = NextAs<tensor::Tensor>(name, "a tensor");
  if (tensor == nullptr) return {};
  if (tensor->IsNull()) {
    Reject("must be a tensor, not a null tensor");
  } else if (!Reaches(tensor->device())) {
    Reject("must be in host memory, not on " + ToString(tensor->device()));
  }
  return *tensor;
}

Device ArgReader::ReachableDevice(std::string_view name) {
  const Value* value = Next(name);
  if (value == nullptr) return {};
  Device device;
  if (const auto* given = value->As<Device>()) {
    device = *given;
  } else if (const auto* text = value->As<std::string>()) {
    const StatusOr<Device> parsed = ParseDevice(*text);
    if (!parsed.ok()) Reject("is no device: " + Message(parsed.status()));
    if (parsed.ok()) device = *parsed;
  } else {
    RejectType("a device", *value);
  }
  if (!Reaches(device)) {
    Reject("is " + ToString(device) + ", and this worker has no GPU (it runs with device: cpu)");
  }
  return device;
}

Value ArgReader::Any(std::string_view name) {
  const Value* value = Next(name);
  return value == nullptr ? Value() : *value;
}

int64_t ArgReader::IndexBelow(std::string_view name, int64_t end) {
  const int64_t index = Int(name);
  if (status_.ok() && (index < 0 || index >= end)) {
    Reject("must be at least 0 and below " + std::to_string(end) + ", not " +
           std::to_string(index));
  }
  return index;
}

bool ArgReader::NextIsList() const {
  return next_ < args_.size() && args_[next_].Is<std::shared_ptr<const List>>();
}

}  // namespace lockstep::module
