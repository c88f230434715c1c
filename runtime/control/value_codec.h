// Values, dtypes, shapes and operations on the wire.
#pragma once

#include <string>

#include "runtime/base/operations.h"
#include "runtime/control/value.h"
#include "schemas/control.capnp.h"
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

// kInvalidArgument if the bytes do not fit shape and dtype: the reader would refuse it.
Status CheckHostTensor(const HostTensor& tensor);
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

// Both count alike, so that a number of one is cast to the other.
static_assert(static_cast<int>(OperationKind::kAllReduce) ==
              static_cast<int>(wire::CollectiveKind::ALL_REDUCE));
static_assert(static_cast<int>(OperationKind::kReduce) ==
              static_cast<int>(wire::CollectiveKind::REDUCE));
static_assert(static_cast<int>(OperationKind::kBroadcast) ==
              static_cast<int>(wire::CollectiveKind::BROADCAST));
static_assert(static_cast<int>(OperationKind::kAllGather) ==
              static_cast<int>(wire::CollectiveKind::ALL_GATHER));
static_assert(static_cast<int>(OperationKind::kGather) ==
              static_cast<int>(wire::CollectiveKind::GATHER));
static_assert(static_cast<int>(OperationKind::kReduceScatter) ==
              static_cast<int>(wire::CollectiveKind::REDUCE_SCATTER));
static_assert(static_cast<int>(OperationKind::kScatter) ==
              static_cast<int>(wire::CollectiveKind::SCATTER));
static_assert(static_cast<int>(OperationKind::kAllToAll) ==
              static_cast<int>(wire::CollectiveKind::ALL_TO_ALL));
static_assert(static_cast<int>(OperationKind::kBarrier) ==
              static_cast<int>(wire::CollectiveKind::BARRIER));
static_assert(static_cast<int>(OperationKind::kTransfer) ==
              static_cast<int>(wire::CollectiveKind::TRANSFER));
static_assert(static_cast<int>(OperationKind::kSendToNextGroup) ==
              static_cast<int>(wire::CollectiveKind::SEND_TO_NEXT_GROUP));
static_assert(static_cast<int>(OperationKind::kReceiveFromPreviousGroup) ==
              static_cast<int>(wire::CollectiveKind::RECEIVE_FROM_PREVIOUS_GROUP));

inline wire::CollectiveKind ToWire(OperationKind kind) {
  return static_cast<wire::CollectiveKind>(kind);
}

// Null: a kind that is not known here.
inline const OperationFacts* FindOperation(wire::CollectiveKind kind) {
  return lockstep::FindOperation(static_cast<size_t>(kind));
}

}  // namespace lockstep::control
