#include "runtime/control/value.h"

#include <algorithm>
#include <sstream>

#include "runtime/base/float_convert.h"

namespace lockstep {
namespace {

template <typename T>
void PrintElements(std::ostream& out, const HostTensor& tensor, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, tensor.data.data() + i * sizeof(T), sizeof(T));
    out << (i > 0 ? ", " : "");
    if constexpr (kIsNarrowFloat<T>) {
      out << ToFloat(element);
    } else {
      out << +element;
    }
  }
}

void PrintElements(std::ostream& out, const HostTensor& tensor, size_t count) {
  switch (tensor.dtype) {
    case DType::kInt8:
      return PrintElements<int8_t>(out, tensor, count);
    case DType::kInt16:
      return PrintElements<int16_t>(out, tensor, count);
    case DType::kInt32:
      return PrintElements<int32_t>(out, tensor, count);
    case DType::kInt64:
      return PrintElements<int64_t>(out, tensor, count);
    case DType::kUInt32:
      return PrintElements<uint32_t>(out, tensor, count);
    case DType::kUInt64:
      return PrintElements<uint64_t>(out, tensor, count);
    case DType::kFloat32:
      return PrintElements<float>(out, tensor, count);
    case DType::kFloat64:
      return PrintElements<double>(out, tensor, count);
    case DType::kBool:
    case DType::kUInt8:
      return PrintElements<uint8_t>(out, tensor, count);
    case DType::kUInt16:
      return PrintElements<uint16_t>(out, tensor, count);
    case DType::kFloat16:
      return PrintElements<Float16>(out, tensor, count);
    case DType::kBFloat16:
      return PrintElements<BFloat16>(out, tensor, count);
    case DType::kFloat8E4M3:
      return PrintElements<Float8E4M3>(out, tensor, count);
    case DType::kFloat8E5M2:
      return PrintElements<Float8E5M2>(out, tensor, count);
  }
}

struct Printer {
  std::ostream& out;
  int max_elements;

  void operator()(None) { out << "none"; }
  void operator()(bool v) { out << (v ? "true" : "false"); }
  void operator()(int64_t v) { out << v; }
  void operator()(double v) { out << v; }
  void operator()(const std::string& v) { out << '"' << v << '"'; }
  void operator()(const Bytes& v) { out << v.data.size() << " bytes"; }
  void operator()(DType v) { out << v; }
  void operator()(Device v) { out << v; }
  void operator()(const Shape& v) { out << v; }
  void operator()(RegisterId v) { out << v; }
  void operator()(const RegisterRef& v) { out << v.id; }
  void operator()(const HostTensor& v) {
    out << v.dtype << ' ' << v.shape << " {";
    const size_t count = v.data.size() / SizeOf(v.dtype);
    const size_t shown = std::min(count, static_cast<size_t>(std::max(max_elements, 0)));
    PrintElements(out, v, shown);
    out << (shown < count ? ", ...}" : "}");
  }
  void operator()(const Value::List& v) {
    out << '[';
    for (size_t i = 0; i < v.size(); ++i) {
      out << (i > 0 ? ", " : "") << ToString(v[i], max_elements);
    }
    out << ']';
  }
  void operator()(const Value::Map& v) {
    out << '{';
    const char* separator = "";
    for (const auto& [key, value] : v) {
      out << separator << key << ": " << ToString(value, max_elements);
      separator = ", ";
    }
    out << '}';
  }
  void operator()(const RemoteObject& v) { out << '<' << v.description << '>'; }
};

}  // namespace

std::string_view TypeName(const Value& value) {
  static constexpr std::string_view kNames[] = {"none",   "bool",  "int64",  "float64", "text",
                                                "bytes",  "dtype", "device", "shape",   "register",
                                                "tensor", "list",  "map",    "object",  "register"};
  static_assert(std::size(kNames) == std::variant_size_v<Value::Variant>);
  return kNames[value.variant.index()];
}

std::string ToString(const Value& value, int max_elements) {
  std::ostringstream out;
  std::visit(Printer{out, max_elements}, value.variant);
  return out.str();
}

}  // namespace lockstep
