#include "tools/cli/value_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "tools/cli/tensor_text.h"

namespace lockstep::cli {
namespace {

std::string Hex(const std::string& bytes) {
  std::string text;
  char digits[3];
  for (unsigned char byte : bytes) {
    std::snprintf(digits, sizeof(digits), "%02x", byte);
    text += digits;
  }
  return text;
}

// The elements of a tensor in nested braces, until `budget` of them are written.
class TensorRenderer {
 public:
  TensorRenderer(const HostTensor& tensor, int64_t budget) : tensor_(tensor), budget_(budget) {}

  std::string Run() {
    out_ << tensor_.dtype << ' ' << tensor_.shape;
    if (tensor_.shape.ndim() == 0) {
      out_ << ' ' << ToString(ElementAt(tensor_, 0));
    } else if (tensor_.shape.NumElements() == 0) {
      // Of no elements there may be very many rows.
      out_ << " {}";
    } else {
      out_ << ' ';
      Level(0);
    }
    return out_.str();
  }

 private:
  void Level(int axis) {
    out_ << '{';
    for (int64_t i = 0; i < tensor_.shape[axis]; ++i) {
      if (i > 0) out_ << ", ";
      if (next_ >= budget_) {
        out_ << "...";
        break;
      }
      if (axis + 1 < tensor_.shape.ndim()) {
        Level(axis + 1);
      } else {
        out_ << ToString(ElementAt(tensor_, next_++));
      }
    }
    out_ << '}';
  }

  const HostTensor& tensor_;
  const int64_t budget_;
  int64_t next_ = 0;
  std::ostringstream out_;
};

Json ToJson(const Number& number) {
  if (const bool* flag = std::get_if<bool>(&number)) return *flag;
  if (const int64_t* integer = std::get_if<int64_t>(&number)) return *integer;
  if (const uint64_t* large = std::get_if<uint64_t>(&number)) return *large;
  const double value = std::get<double>(number);
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

Json DimsToJson(const Shape& shape) {
  Json dims = Json::array();
  for (int64_t dim : shape.dims()) dims.push_back(dim);
  return dims;
}

struct JsonMaker {
  Json operator()(None) const { return nullptr; }
  Json operator()(bool v) const { return v; }
  Json operator()(int64_t v) const { return v; }
  Json operator()(double v) const { return ToJson(Number(v)); }
  Json operator()(const std::string& v) const { return v; }
  Json operator()(const Bytes& v) const { return {{"bytes", Hex(v.data)}}; }
  Json operator()(DType v) const { return {{"dtype", Name(v)}}; }
  Json operator()(Device v) const { return {{"device", ToString(v)}}; }
  Json operator()(const Shape& v) const { return {{"shape", DimsToJson(v)}}; }
  Json operator()(RegisterId v) const {
    std::ostringstream text;
    text << v;
    return {{"register", text.str()}};
  }
  Json operator()(const RegisterRef& v) const { return (*this)(v.id); }
  Json operator()(const HostTensor& v) const {
    Json data = Json::array();
    for (int64_t i = 0; i < v.shape.NumElements(); ++i) data.push_back(ToJson(ElementAt(v, i)));
    return {{"tensor", {{"dtype", Name(v.dtype)}, {"shape", DimsToJson(v.shape)}, {"data", data}}}};
  }
  Json operator()(const Value::List& v) const {
    Json list = Json::array();
    for (const Value& item : v) list.push_back(cli::ToJson(item));
    return list;
  }
  Json operator()(const Value::Map& v) const {
    Json map = Json::object();
    for (const auto& [key, item] : v) map[key] = cli::ToJson(item);
    return map;
  }
  Json operator()(const RemoteObject& v) const { return {{"object", v.description}}; }
};

}  // namespace

std::string ToText(const Json& json) {
  return json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

std::string Render(const Value& value, int max_elements) {
  if (const HostTensor* tensor = value.As<HostTensor>()) {
    return TensorRenderer(*tensor, max_elements).Run();
  }
  if (const auto* list = value.As<Value::List>()) {
    std::string text = "[";
    for (const Value& item : *list) {
      text += (text.size() > 1 ? ", " : "") + Render(item, max_elements);
    }
    return text + "]";
  }
  if (const auto* map = value.As<Value::Map>()) {
    std::string text = "{";
    for (const auto& [key, item] : *map) {
      text += (text.size() > 1 ? ", " : "") + key + ": " + Render(item, max_elements);
    }
    return text + "}";
  }
  if (const Bytes* bytes = value.As<Bytes>()) return "hex:" + Hex(bytes->data);
  return ToString(value);
}

Json ToJson(const Value& value) { return std::visit(JsonMaker(), value.variant); }

std::vector<SharedValue> GroupEqual(const std::vector<RankValue>& values) {
  std::vector<SharedValue> groups;
  for (const RankValue& entry : values) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const SharedValue& group) {
      return *group.value == entry.value;
    });
    if (same != groups.end()) {
      same->ranks.push_back(entry.rank);
    } else {
      groups.push_back({{entry.rank}, &entry.value});
    }
  }
  return groups;
}

Json ToJson(const std::vector<RankValue>& values) {
  Json array = Json::array();
  for (const RankValue& entry : values) {
    array.push_back({{"rank", entry.rank}, {"value", ToJson(entry.value)}});
  }
  return array;
}

}  // namespace lockstep::cli
