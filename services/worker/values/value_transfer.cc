#include "services/worker/values/value_transfer.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>

#include "runtime/control/value_codec.h"
#include "services/worker/values/reachable.h"

namespace lockstep::worker {
namespace {

using registers::Value;

StatusOr<tensor::Tensor> ReadTensor(wire::HostTensor::Reader reader,
                                    const tensor::Processors& places) {
  LOCKSTEP_ASSIGN_OR_RETURN(const DType dtype, control::FromWire(reader.getDtype()));
  LOCKSTEP_ASSIGN_OR_RETURN(const Shape shape,
                            control::ReadShape(reader.getShape(), SizeOf(dtype)));
  const capnp::Data::Reader data = reader.getData();
  if (data.size() != static_cast<uint64_t>(shape.NumElements()) * SizeOf(dtype)) {
    return InvalidArgument("a tensor ", dtype, " ", shape, " came with ", data.size(), " bytes");
  }
  tensor::Processor& home = places.Home();
  LOCKSTEP_ASSIGN_OR_RETURN(tensor::Tensor tensor,
                            tensor::Tensor::Empty(home.allocator(), dtype, shape));
  LOCKSTEP_RETURN_IF_ERROR(home.FromHost(tensor.data(), data.begin(), data.size()));
  return tensor;
}

Status WriteWithin(size_t* room_bytes, const tensor::Processors& places, const Value& value,
                   wire::Value::Builder builder);

// What an element of a list or map costs, whatever it is.
constexpr size_t kElementBytes = 32;

// Registers may hold one list many times, which is small here and large on the wire: everything
// that is written takes from the same room.
struct Writer {
  wire::Value::Builder& out;
  size_t* room_bytes;
  const tensor::Processors& places;

  Status operator()(registers::None) { return out.setNone(), OkStatus(); }
  Status operator()(bool v) { return out.setBool(v), OkStatus(); }
  Status operator()(int64_t v) { return out.setInt64(v), OkStatus(); }
  Status operator()(double v) { return out.setFloat64(v), OkStatus(); }
  Status operator()(const std::string& v) { return Payload(v.size(), v); }
  Status operator()(const registers::Bytes& v) {
    return Payload(v.data.size(), lockstep::Bytes{v.data});
  }
  Status operator()(DType v) { return Plain(v); }
  Status operator()(Device v) { return Plain(v); }
  Status operator()(const Shape& v) { return Plain(v); }
  Status operator()(const tensor::Tensor& v) {
    LOCKSTEP_RETURN_IF_ERROR(RequireReachable(places, v, "the tensor to send"));
    LOCKSTEP_RETURN_IF_ERROR(Take(v.size_bytes()));
    auto tensor = out.initTensor();
    tensor.setDtype(control::ToWire(v.dtype()));
    control::WriteDims(tensor.initShape(static_cast<unsigned>(v.shape().ndim())), v.shape());
    auto data = tensor.initData(static_cast<unsigned>(v.size_bytes()));
    return places.Of(v.device())->ToHost(data.begin(), v.data(), v.size_bytes());
  }
  Status operator()(const std::shared_ptr<registers::Object>& v) {
    return Plain(RemoteObject{v->Describe()});
  }
  Status operator()(const std::shared_ptr<const registers::List>& v) {
    LOCKSTEP_RETURN_IF_ERROR(Take(v->size() * kElementBytes));
    auto list = out.initList(static_cast<unsigned>(v->size()));
    for (unsigned i = 0; i < list.size(); ++i) {
      LOCKSTEP_RETURN_IF_ERROR(WriteWithin(room_bytes, places, (*v)[i], list[i]));
    }
    return OkStatus();
  }
  Status operator()(const std::shared_ptr<const registers::Map>& v) {
    LOCKSTEP_RETURN_IF_ERROR(Take(v->size() * kElementBytes));
    auto map = out.initMap(static_cast<unsigned>(v->size()));
    unsigned i = 0;
    for (const auto& [key, item] : *v) {
      LOCKSTEP_RETURN_IF_ERROR(Take(key.size()));
      map[i].setKey(control::TextOf(key));
      LOCKSTEP_RETURN_IF_ERROR(WriteWithin(room_bytes, places, item, map[i].initValue()));
      ++i;
    }
    return OkStatus();
  }
  Status Take(size_t bytes) {
    if (bytes > *room_bytes) {
      return ResourceExhausted("the value is too large to travel as one: ", bytes,
                               " bytes are left to write where ", *room_bytes,
                               " more may be; use CopyFromWorker0 for tensors");
    }
    *room_bytes -= bytes;
    return OkStatus();
  }
  Status Payload(size_t bytes, const lockstep::Value& v) {
    LOCKSTEP_RETURN_IF_ERROR(Take(bytes));
    return Plain(v);
  }
  // The kinds that both sides have in common.
  Status Plain(const lockstep::Value& v) {
    control::WriteValue(out, v);
    return OkStatus();
  }
};

Status WriteWithin(size_t* room_bytes, const tensor::Processors& places, const Value& value,
                   wire::Value::Builder builder) {
  return std::visit(Writer{builder, room_bytes, places}, value.variant);
}

// Levels of lists and maps. `known` has the depth of what was looked at: a value may hold the same
// list in very many places.
using KnownDepths = std::unordered_map<const void*, int>;
int DepthOf(const Value& value, KnownDepths& known) {
  const auto of_items = [&](const void* container, auto visit_items) {
    const auto found = known.find(container);
    if (found != known.end()) return found->second;
    int deepest = 0;
    visit_items([&](const Value& item) { deepest = std::max(deepest, DepthOf(item, known)); });
    return known[container] = deepest + 1;
  };
  if (const auto* list = value.As<std::shared_ptr<const registers::List>>()) {
    return of_items(list->get(), [&](auto visit) {
      for (const Value& item : **list) visit(item);
    });
  }
  if (const auto* map = value.As<std::shared_ptr<const registers::Map>>()) {
    return of_items(map->get(), [&](auto visit) {
      for (const auto& [key, item] : **map) visit(item);
    });
  }
  return 0;
}

// Lists of registers that hold lists of registers grow without bound, and everything that walks
// them, if only to free them, would run out of stack.
StatusOr<Value> WithinDepth(Value value) {
  KnownDepths known;
  const int depth = DepthOf(value, known);
  if (depth <= control::kMaxValueDepth) return value;
  return InvalidArgument("a value has at most ", control::kMaxValueDepth,
                         " levels of lists and maps, with what its registers hold this one has ",
                         depth);
}

StatusOr<Value> ReadList(capnp::List<wire::Value>::Reader reader,
                         const registers::RegisterFile& registers,
                         const tensor::Processors& places) {
  auto list = std::make_shared<registers::List>();
  list->reserve(reader.size());
  for (const wire::Value::Reader& item : reader) {
    LOCKSTEP_RETURN_IF_ERROR(AddFromWire(item, registers, places, list.get()));
  }
  return WithinDepth(std::shared_ptr<const registers::List>(std::move(list)));
}

StatusOr<Value> ReadMap(capnp::List<wire::Value::Entry>::Reader reader,
                        const registers::RegisterFile& registers,
                        const tensor::Processors& places) {
  auto map = std::make_shared<registers::Map>();
  for (auto entry : reader) {
    LOCKSTEP_ASSIGN_OR_RETURN(Value value, FromWire(entry.getValue(), registers, places));
    if (!map->emplace(control::ToString(entry.getKey()), std::move(value)).second) {
      return InvalidArgument("a map has the key \"", control::ToString(entry.getKey()), "\" twice");
    }
  }
  return WithinDepth(std::shared_ptr<const registers::Map>(std::move(map)));
}

// Calls `put` with what the value holds, so that it is made where it is to be.
template <typename Put>
Status Read(const wire::Value::Reader& reader, const registers::RegisterFile& registers,
            const tensor::Processors& places, Put put) {
  switch (reader.which()) {
    case wire::Value::REGISTER: {
      LOCKSTEP_ASSIGN_OR_RETURN(const Value* const value,
                                registers.Read(RegisterId::FromPacked(reader.getRegister())));
      return put(*value);
    }
    case wire::Value::NONE:
      return put(registers::None());
    case wire::Value::BOOL:
      return put(reader.getBool());
    case wire::Value::INT64:
      return put(reader.getInt64());
    case wire::Value::FLOAT64:
      return put(reader.getFloat64());
    case wire::Value::TEXT:
      return put(control::ToString(reader.getText()));
    case wire::Value::BYTES: {
      const capnp::Data::Reader bytes = reader.getBytes();
      return put(registers::Bytes{
          std::string(reinterpret_cast<const char*>(bytes.begin()), bytes.size())});
    }
    case wire::Value::DTYPE: {
      LOCKSTEP_ASSIGN_OR_RETURN(const DType dtype, control::FromWire(reader.getDtype()));
      return put(dtype);
    }
    case wire::Value::SHAPE: {
      LOCKSTEP_ASSIGN_OR_RETURN(Shape shape, control::ReadShape(reader.getShape()));
      return put(std::move(shape));
    }
    case wire::Value::DEVICE: {
      LOCKSTEP_ASSIGN_OR_RETURN(const lockstep::Value device, control::ReadValue(reader));
      return put(*device.As<Device>());
    }
    case wire::Value::TENSOR: {
      LOCKSTEP_ASSIGN_OR_RETURN(tensor::Tensor tensor, ReadTensor(reader.getTensor(), places));
      return put(std::move(tensor));
    }
    case wire::Value::LIST: {
      LOCKSTEP_ASSIGN_OR_RETURN(Value list, ReadList(reader.getList(), registers, places));
      return put(std::move(list));
    }
    case wire::Value::MAP: {
      LOCKSTEP_ASSIGN_OR_RETURN(Value map, ReadMap(reader.getMap(), registers, places));
      return put(std::move(map));
    }
    case wire::Value::OBJECT:
      return InvalidArgument("objects of a worker cannot be sent to it; pass their DRef");
  }
  return InvalidArgument("unknown kind of value ", static_cast<int>(reader.which()));
}

}  // namespace

Status AddFromWire(const wire::Value::Reader& reader, const registers::RegisterFile& registers,
                   const tensor::Processors& places, registers::List* values) {
  return Read(reader, registers, places, [&]<typename Held>(Held&& held) {
    values->emplace_back(std::forward<Held>(held));
    return OkStatus();
  });
}

// The same as Read() for what FindPlainCall() takes for plain.
Status AddFromWire(const control::PlainArgument& argument, const registers::RegisterFile& registers,
                   const tensor::Processors&, registers::List* values) {
  switch (argument.kind()) {
    case wire::Value::REGISTER: {
      LOCKSTEP_ASSIGN_OR_RETURN(const Value* const value, registers.Read(argument.GetRegister()));
      values->push_back(*value);
      break;
    }
    case wire::Value::BOOL:
      values->emplace_back(argument.GetBool());
      break;
    case wire::Value::INT64:
      values->emplace_back(argument.GetInt64());
      break;
    case wire::Value::FLOAT64:
      values->emplace_back(argument.GetFloat64());
      break;
    case wire::Value::TEXT:
      values->emplace_back(std::string(argument.GetText()));
      break;
    case wire::Value::DTYPE: {
      LOCKSTEP_ASSIGN_OR_RETURN(const DType dtype, control::FromWire(argument.GetDType()));
      values->emplace_back(dtype);
      break;
    }
    case wire::Value::SHAPE:
      LOCKSTEP_RETURN_IF_ERROR(Shape::ValidateDims(argument.GetShape()));
      values->emplace_back(Shape(argument.GetShape()));
      break;
    case wire::Value::NONE:
      values->emplace_back(registers::None());
      break;
    default:
      return Internal("a plain argument of kind ", static_cast<int>(argument.kind()));
  }
  return OkStatus();
}

StatusOr<Value> FromWire(const wire::Value::Reader& reader,
                         const registers::RegisterFile& registers,
                         const tensor::Processors& places) {
  StatusOr<Value> value = Value();
  const Status read = Read(reader, registers, places, [&]<typename Held>(Held&& held) {
    *value = std::forward<Held>(held);
    return OkStatus();
  });
  if (!read.ok()) value = read;
  return value;
}

Status ToWire(const Value& value, size_t max_bytes, const tensor::Processors& places,
              wire::Value::Builder builder) {
  return WriteWithin(&max_bytes, places, value, builder);
}

}  // namespace lockstep::worker
