#include "runtime/registers/value.h"

#include <unordered_set>

namespace lockstep::registers {
namespace {

// Lists and maps are shared, so that a few may be reached in more ways than could be followed: each
// is gone through when it is met first.
class Walk {
 public:
  explicit Walk(const std::function<void(const Value&)>& visit) : visit_(visit) {}

  void Through(const Value& value) {
    const auto* const list = value.As<std::shared_ptr<const List>>();
    const auto* const map = value.As<std::shared_ptr<const Map>>();
    if (list != nullptr && !met_.insert(list->get()).second) return;
    if (map != nullptr && !met_.insert(map->get()).second) return;
    visit_(value);
    if (list != nullptr) {
      for (const Value& item : **list) Through(item);
    }
    if (map != nullptr) {
      for (const auto& [key, item] : **map) Through(item);
    }
  }

 private:
  const std::function<void(const Value&)>& visit_;
  std::unordered_set<const void*> met_;
};

// Of the value alone, without what it holds.
size_t OwnBytes(const Value& value) {
  if (const auto* tensor = value.As<tensor::Tensor>()) {
    return tensor->IsNull() || tensor->storage()->is_counted_apart() ? 0 : tensor->size_bytes();
  }
  if (const auto* text = value.As<std::string>()) return text->size();
  if (const auto* object = value.As<std::shared_ptr<Object>>()) {
    return *object == nullptr ? 0 : (*object)->HeldBytes();
  }
  if (const auto* bytes = value.As<Bytes>()) return bytes->data.size();
  if (const auto* list = value.As<std::shared_ptr<const List>>()) {
    return (*list)->size() * sizeof(Value);
  }
  size_t bytes = 0;
  if (const auto* map = value.As<std::shared_ptr<const Map>>()) {
    bytes = (*map)->size() * sizeof(Map::value_type);
    for (const auto& [key, item] : **map) bytes += key.size();
  }
  return bytes;
}

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
      case Object::Kind::kPlan:
        return "plan";
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

void ForEachIn(const Value& value, const std::function<void(const Value&)>& visit) {
  Walk(visit).Through(value);
}

size_t HeldBytes(const Value& value) {
  const bool holds_others =
      value.Is<std::shared_ptr<const List>>() || value.Is<std::shared_ptr<const Map>>();
  if (!holds_others) return OwnBytes(value);
  size_t bytes = 0;
  ForEachIn(value, [&](const Value& each) { bytes += OwnBytes(each); });
  return bytes;
}

std::string Describe(const Value& value) { return std::visit(Describer{}, value.variant); }

}  // namespace lockstep::registers
