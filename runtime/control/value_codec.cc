#include "runtime/control/value_codec.h"

#include <algorithm>
#include <utility>

namespace lockstep::control {

namespace {

// The wire's enum and ours are one list.
static_assert(static_cast<int>(wire::DType::BOOL) == static_cast<int>(DType::kBool));
static_assert(static_cast<int>(wire::DType::INT64) == static_cast<int>(DType::kInt64));
static_assert(static_cast<int>(wire::DType::FLOAT16) == static_cast<int>(DType::kFloat16));
static_assert(static_cast<int>(wire::DType::FLOAT64) == static_cast<int>(DType::kFloat64));
static_assert(static_cast<int>(wire::DType::FLOAT8_E5M2) == kDTypeCount - 1);

capnp::Data::Reader DataOf(const std::string& bytes) {
  return {reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()};
}
std::string BytesOf(capnp::Data::Reader data) {
  return std::string(reinterpret_cast<const char*>(data.begin()), data.size());
}
void CopyText(capnp::Text::Builder to, const std::string& from) {
  std::copy(from.begin(), from.end(), to.begin());
}

// Writes one alternative of a Value.
struct Writer {
  wire::Value::Builder& out;

  void operator()(None) { out.setNone(); }
  void operator()(bool v) { out.setBool(v); }
  void operator()(int64_t v) { out.setInt64(v); }
  void operator()(double v) { out.setFloat64(v); }
  void operator()(const std::string& v) {
    CopyText(out.initText(static_cast<unsigned>(v.size())), v);
  }
  void operator()(const Bytes& v) { out.setBytes(DataOf(v.data)); }
  void operator()(DType v) { out.setDtype(ToWire(v)); }
  void operator()(Device v) {
    auto device = out.initDevice();
    device.setType(static_cast<uint8_t>(v.type));
    device.setIndex(v.index);
  }
  void operator()(const Shape& v) { WriteDims(out.initShape(static_cast<unsigned>(v.ndim())), v); }
  void operator()(RegisterId v) { out.setRegister(v.Packed()); }
  void operator()(const RegisterRef& v) { out.setRegister(v.id.Packed()); }
  void operator()(const HostTensor& v) { WriteHostTensor(out.initTensor(), v); }
  void operator()(const Value::List& v) {
    auto list = out.initList(static_cast<unsigned>(v.size()));
    for (unsigned i = 0; i < list.size(); ++i) WriteValue(list[i], v[i]);
  }
  void operator()(const Value::Map& v) {
    auto map = out.initMap(static_cast<unsigned>(v.size()));
    unsigned i = 0;
    for (const auto& [key, value] : v) {
      CopyText(map[i].initKey(static_cast<unsigned>(key.size())), key);
      WriteValue(map[i].initValue(), value);
      ++i;
    }
  }
  void operator()(const RemoteObject& v) {
    CopyText(out.initObject(static_cast<unsigned>(v.description.size())), v.description);
  }
};

struct PayloadCounter {
  size_t operator()(const std::string& v) const { return v.size(); }
  size_t operator()(const Bytes& v) const { return v.data.size(); }
  size_t operator()(const HostTensor& v) const { return v.data.size(); }
  size_t operator()(const Value::List& v) const {
    size_t bytes = v.size() * kPayloadElementBytes;
    for (const Value& item : v) bytes += PayloadBytes(item);
    return bytes;
  }
  size_t operator()(const Value::Map& v) const {
    size_t bytes = v.size() * 2 * kPayloadElementBytes;
    for (const auto& [key, item] : v) bytes += key.size() + PayloadBytes(item);
    return bytes;
  }
  template <typename Small>
  size_t operator()(const Small&) const {
    return 0;
  }
};

StatusOr<Value> ReadDevice(wire::Value::Device::Reader reader) {
  const int type = reader.getType();
  if (type != static_cast<int>(DeviceType::kCpu) && type != static_cast<int>(DeviceType::kCuda)) {
    return InvalidArgument("unknown device type ", type);
  }
  return Value(Device{static_cast<DeviceType>(type), reader.getIndex()});
}

StatusOr<Value> ReadList(capnp::List<wire::Value>::Reader reader) {
  Value::List list;
  list.reserve(reader.size());
  for (auto item : reader) {
    LOCKSTEP_ASSIGN_OR_RETURN(Value value, ReadValue(item));
    list.push_back(std::move(value));
  }
  return Value(std::move(list));
}

StatusOr<Value> ReadMap(capnp::List<wire::Value::Entry>::Reader reader) {
  Value::Map map;
  for (auto entry : reader) {
    LOCKSTEP_ASSIGN_OR_RETURN(Value value, ReadValue(entry.getValue()));
    if (!map.emplace(ToString(entry.getKey()), std::move(value)).second) {
      return InvalidArgument("a map has the key \"", ToString(entry.getKey()), "\" twice");
    }
  }
  return Value(std::move(map));
}

}  // namespace

StatusOr<DType> FromWire(wire::DType dtype) { return DTypeFromNumber(static_cast<int>(dtype)); }

StatusOr<Shape> ReadShape(capnp::List<int64_t>::Reader dims, size_t element_size_bytes) {
  if (dims.size() > static_cast<unsigned>(Shape::kMaxDims)) {
    return InvalidArgument("a shape has at most ", Shape::kMaxDims, " dimensions, this one has ",
                           dims.size());
  }
  int64_t extents[Shape::kMaxDims];
  for (unsigned i = 0; i < dims.size(); ++i) extents[i] = dims[i];
  Shape shape(absl::MakeConstSpan(extents, dims.size()));
  LOCKSTEP_RETURN_IF_ERROR(shape.Validate(element_size_bytes));
  return shape;
}

void WriteHostTensor(wire::HostTensor::Builder builder, const HostTensor& tensor) {
  builder.setDtype(ToWire(tensor.dtype));
  WriteDims(builder.initShape(static_cast<unsigned>(tensor.shape.ndim())), tensor.shape);
  builder.setData(DataOf(tensor.data));
}

Status CheckHostTensor(const HostTensor& tensor) {
  LOCKSTEP_RETURN_IF_ERROR(tensor.shape.Validate(SizeOf(tensor.dtype)));
  const auto expected = static_cast<uint64_t>(tensor.shape.NumElements()) * SizeOf(tensor.dtype);
  if (tensor.data.size() == expected) return OkStatus();
  return InvalidArgument("a tensor ", tensor.dtype, " ", tensor.shape, " has ", expected,
                         " bytes, its data has ", tensor.data.size());
}

StatusOr<HostTensor> ReadHostTensor(wire::HostTensor::Reader reader) {
  HostTensor tensor;
  LOCKSTEP_ASSIGN_OR_RETURN(tensor.dtype, FromWire(reader.getDtype()));
  LOCKSTEP_ASSIGN_OR_RETURN(tensor.shape, ReadShape(reader.getShape(), SizeOf(tensor.dtype)));
  const auto expected = static_cast<uint64_t>(tensor.shape.NumElements()) * SizeOf(tensor.dtype);
  if (reader.getData().size() != expected) {
    return InvalidArgument("a tensor ", tensor.dtype, " ", tensor.shape, " has ", expected,
                           " bytes, ", reader.getData().size(), " came");
  }
  tensor.data = BytesOf(reader.getData());
  return tensor;
}

void WriteValue(wire::Value::Builder builder, const Value& value) {
  std::visit(Writer{builder}, value.variant);
}

StatusOr<Value> ReadValue(wire::Value::Reader reader) {
  switch (reader.which()) {
    case wire::Value::NONE:
      return Value();
    case wire::Value::BOOL:
      return Value(reader.getBool());
    case wire::Value::INT64:
      return Value(reader.getInt64());
    case wire::Value::FLOAT64:
      return Value(reader.getFloat64());
    case wire::Value::TEXT:
      return Value(ToString(reader.getText()));
    case wire::Value::BYTES:
      return Value(Bytes{BytesOf(reader.getBytes())});
    case wire::Value::DTYPE: {
      LOCKSTEP_ASSIGN_OR_RETURN(DType dtype, FromWire(reader.getDtype()));
      return Value(dtype);
    }
    case wire::Value::DEVICE:
      return ReadDevice(reader.getDevice());
    case wire::Value::SHAPE: {
      LOCKSTEP_ASSIGN_OR_RETURN(Shape shape, ReadShape(reader.getShape()));
      return Value(shape);
    }
    case wire::Value::REGISTER:
      return Value(RegisterId::FromPacked(reader.getRegister()));
    case wire::Value::TENSOR: {
      LOCKSTEP_ASSIGN_OR_RETURN(HostTensor tensor, ReadHostTensor(reader.getTensor()));
      return Value(std::move(tensor));
    }
    case wire::Value::LIST:
      return ReadList(reader.getList());
    case wire::Value::MAP:
      return ReadMap(reader.getMap());
    case wire::Value::OBJECT:
      return Value(RemoteObject{ToString(reader.getObject())});
  }
  return InvalidArgument("unknown kind of value ", static_cast<int>(reader.which()));
}

Status CheckDepth(const Value& value) {
  struct Depth {
    static int Of(const Value& v) {
      int deepest = 0;
      if (const auto* list = v.As<Value::List>()) {
        for (const Value& item : *list) deepest = std::max(deepest, Of(item));
        return deepest + 1;
      }
      if (const auto* map = v.As<Value::Map>()) {
        for (const auto& [key, item] : *map) deepest = std::max(deepest, Of(item));
        return deepest + 1;
      }
      return 0;
    }
  };
  const int depth = Depth::Of(value);
  if (depth > kMaxValueDepth) {
    return InvalidArgument("a value has at most ", kMaxValueDepth, " levels of lists and maps, ",
                           "this one has ", depth);
  }
  return OkStatus();
}

static_assert(kPayloadElementBytes ==
              sizeof(capnp::word) * capnp::_::structSize<wire::Value>().total());
size_t PayloadBytes(const Value& value) { return std::visit(PayloadCounter(), value.variant); }

}  // namespace lockstep::control
