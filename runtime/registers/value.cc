#include "runtime/registers/value.h"

#include <cstdio>
#include <unordered_set>

namespace lockstep::registers {
namespace {

// How much of a text, or how many parts of a list, people are shown.
constexpr size_t kShownBytes = 60;
constexpr size_t kShownItems = 8;
// Deeper nesting is shown as "...".
constexpr int kShownDepth = 3;

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text.substr(0, kShownBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\x%02x", byte);
      out += escape;
    } else {
      out += c;
    }
  }
  out += '"';
  if (text.size() > kShownBytes) out += "... (" + std::to_string(text.size()) + " bytes)";
  return out;
}

std::string DescribeAt(const Value& value, int depth);

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

std::string DescribeList(const List& list, int depth) {
  if (depth >= kShownDepth) return "[...]";
  std::string out = "[";
  for (size_t i = 0; i < list.size() && i < kShownItems; ++i) {
    out += (i > 0 ? ", " : "") + DescribeAt(list[i], depth + 1);
  }
  if (list.size() > kShownItems) out += ", ... (" + std::to_string(list.size()) + " items)";
  return out + "]";
}

std::string DescribeMap(const Map& map, int depth) {
  if (depth >= kShownDepth) return "{...}";
  std::string out = "{";
  size_t shown = 0;
  for (const auto& [key, value] : map) {
    if (shown == kShownItems) {
      out += ", ... (" + std::to_string(map.size()) + " items)";
      break;
    }
    out += (shown++ > 0 ? ", " : "") + Quoted(key) + ": " + DescribeAt(value, depth + 1);
  }
  return out + "}";
}

// One overload per alternative of Value, so that a new one does not compile until it is here.
struct Describer {
  int depth;

  std::string operator()(None) const { return "none"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const {
    char text[32];
    std::snprintf(text, sizeof(text), "%.9g", value);
    return text;
  }
  std::string operator()(const std::string& text) const { return Quoted(text); }
  std::string operator()(const Bytes& bytes) const {
    return "bytes (" + std::to_string(bytes.data.size()) + ")";
  }
  std::string operator()(DType dtype) const { return std::string(Name(dtype)); }
  std::string operator()(Device device) const { return ToString(device); }
  std::string operator()(const Shape& shape) const { return "shape " + shape.ToString(); }
  std::string operator()(const tensor::Tensor& tensor) const {
    if (tensor.IsNull()) return "null tensor";
    return "tensor " + std::string(Name(tensor.dtype())) + " " + tensor.shape().ToString();
  }
  std::string operator()(const std::shared_ptr<Object>& object) const {
    return object == nullptr ? "null object" : object->Describe();
  }
  std::string operator()(const std::shared_ptr<const List>& list) const {
    return DescribeList(*list, depth);
  }
  std::string operator()(const std::shared_ptr<const Map>& map) const {
    return DescribeMap(*map, depth);
  }
};

std::string DescribeAt(const Value& value, int depth) {
  return std::visit(Describer{depth}, value.variant);
}

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

std::string Describe(const Value& value) { return DescribeAt(value, 0); }

}  // namespace lockstep::registers
