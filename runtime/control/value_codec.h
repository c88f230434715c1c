// Values to and from their wire form (schemas/values.capnp).
#pragma once

#include <string>

#include "runtime/control/value.h"
#include "schemas/values.capnp.h"

namespace lockstep::control {

inline wire::DType ToWire(DType dtype) { return static_cast<wire::DType>(dtype); }
StatusOr<DType> FromWire(wire::DType dtype);

// Shapes travel as plain lists of extents.
template <typename ListBuilder>
void WriteDims(ListBuilder list, const Shape& shape) {
  for (int i = 0; i < shape.ndim(); ++i) list.set(static_cast<unsigned>(i), shape[i]);
}
// kInvalidArgument for too many dimensions, negative extents, or an absurd size.
StatusOr<Shape> ReadShape(capnp::List<int64_t>::Reader dims, size_t element_size_bytes = 1);

void WriteHostTensor(wire::HostTensor::Builder builder, const HostTensor& tensor);
// kInvalidArgument if the bytes do not fit shape and dtype.
StatusOr<HostTensor> ReadHostTensor(wire::HostTensor::Reader reader);

void WriteValue(wire::Value::Builder builder, const Value& value);
// Depth is bounded by the message's reader.
StatusOr<Value> ReadValue(wire::Value::Reader reader);

// Most levels of lists and maps that a value may have; the readers' nesting limit allows for it.
inline constexpr int kMaxValueDepth = 8;
// kInvalidArgument if `value` is nested deeper than that.
Status CheckDepth(const Value& value);
// What an element of a list takes on the wire, whatever it is.
inline constexpr size_t kPayloadElementBytes = 24;
// Bytes of the text, bytes, tensors and elements in `value`: what it costs on the wire, roughly.
size_t PayloadBytes(const Value& value);

// A setter that is given a std::string stops at its first zero byte; one given this does not.
inline capnp::Text::Reader TextOf(const std::string& text) { return {text.c_str(), text.size()}; }
inline std::string ToString(capnp::Text::Reader text) {
  return std::string(text.cStr(), text.size());
}

}  // namespace lockstep::control
