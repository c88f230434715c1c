#include "runtime/registers/value.h"

#include <unordered_set>

namespace lockstep::registers {
namespace {

// Adds up what values keep. Lists and maps are shared, so that a few may be reached in more ways
// than anybody could follow: each is counted when it is met first.
class MemoryCount {
 public:
  size_t Of(const Value& value) {
    if (const auto* tensor = value.As<tensor::Tensor>()) {
      return tensor->IsNull() ? 0 : tensor->size_bytes();
    }
    if (const auto* text = value.As<std::string>()) return text->size();
    if (const auto* bytes = value.As<Bytes>()) return bytes->data.size();
    if (const auto* list = value.As<std::shared_ptr<const List>>()) return OfList(**list);
    if (const auto* map = value.As<std::shared_ptr<const Map>>()) return OfMap(**map);
    return 0;
  }

 private:
  size_t OfList(const List& list) {
    if (!met_.insert(&list).second) return 0;
    size_t bytes = list.size() * sizeof(Value);
    for (const Value& item : list) bytes += Of(item);
    return bytes;
  }
  size_t OfMap(const Map& map) {
    if (!met_.insert(&map).second) return 0;
    size_t bytes = map.size() * sizeof(Map::value_type);
    for (const auto& [key, item] : map) bytes += key.size() + Of(item);
    return bytes;
  }

  std::unordered_set<const void*> met_;
};

// One overload per alternative of Value, so that a new one does not compile until it is here.
struct Describer {
  std::string operator()(None) const { return "none"; }
  std::string operator()(bool) const { return "bool"; }
  std::string operator()(int64_t) const { return "int64"; }
  std::string operator()(double) const { return "float64"; }
  std::string operator()(const std::string& text) const {
    return "text of " + std::to_string(text.size()) + " bytes";
  }
  std::string operator()(const Bytes& bytes) const {
    return "bytes (" + std::to_string(bytes.data.size()) + ")";
  }
  std::string operator()(DType dtype) const { return "dtype " + std::string(Name(dtype)); }
  std::string operator()(Device device) const { return "device " + ToString(device); }
  std::string operator()(const Shape& shape) const { return "shape " + shape.ToString(); }
  std::string operator()(const tensor::Tensor& tensor) const {
    if (tensor.IsNull()) return "null tensor";
    return "tensor " + std::string(Name(tensor.dtype())) + " " + tensor.shape().ToString();
  }
  std::string operator()(const std::shared_ptr<Object>& object) const {
    return object == nullptr ? "null object" : object->Describe();
  }
  std::string operator()(const std::shared_ptr<const List>& list) const {
    return "list of " + std::to_string(list->size());
  }
  std::string operator()(const std::shared_ptr<const Map>& map) const {
    return "map of " + std::to_string(map->size());
  }
};

struct TypeNamer {
  std::string_view operator()(None) const { return "none"; }
  std::string_view operator()(bool) const { return "bool"; }
  std::string_view operator()(int64_t) const { return "int64"; }
  std::string_view operator()(double) const { return "float64"; }
  std::string_view operator()(const std::string&) const { return "text"; }
  std::string_view operator()(const Bytes&) const { return "bytes"; }
  std::string_view operator()(DType) const { return "dtype"; }
  std::string_view operator()(Device) const { return "device"; }
  std::string_view operator()(const Shape&) const { return "shape"; }
  std::string_view operator()(const tensor::Tensor&) const { return "tensor"; }
  std::string_view operator()(const std::shared_ptr<Object>& object) const {
    if (object == nullptr) return "object";
    switch (object->kind()) {
      case Object::Kind::kFunction:
        return "function";
      case Object::Kind::kModule:
        return "module";
      case Object::Kind::kOpaque:
        return "object";
    }
    return "object";
  }
  std::string_view operator()(const std::shared_ptr<const List>&) const { return "list"; }
  std::string_view operator()(const std::shared_ptr<const Map>&) const { return "map"; }
};

}  // namespace

std::string_view TypeName(const Value& value) { return std::visit(TypeNamer{}, value.variant); }

size_t HeldBytes(const Value& value) { return MemoryCount().Of(value); }

std::string Describe(const Value& value) { return std::visit(Describer{}, value.variant); }

}  // namespace lockstep::registers
