#include "tools/cli/argument.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "services/config/yaml_document.h"
#include "tools/cli/npy.h"

namespace lockstep::cli {
namespace {

constexpr int kMaxDepth = 64;
// More than a command line holds.
constexpr size_t kMaxArgumentBytes = size_t{16} << 20;
// yaml-cpp's tags: "?" for plain scalars and untagged collections, "!" for quoted scalars.
constexpr char kQuotedTag[] = "!";

bool HasOwnTag(const YAML::Node& node) { return node.Tag().size() > 1 && node.Tag()[0] == '!'; }

// "1, 2, 3" as numbers.
StatusOr<std::vector<Number>> ParseNumberList(std::string_view text) {
  std::vector<Number> numbers;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view item = text.substr(0, comma);
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<Number> number, ParseNumber(item));
    if (!number.has_value()) return InvalidArgument("\"", item, "\" is no number");
    numbers.push_back(*number);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return numbers;
}

// "2, 3" as extents; nothing if it is something else.
std::optional<Shape> ParseExtents(std::string_view text) {
  const StatusOr<std::vector<Number>> numbers = ParseNumberList(text);
  if (!numbers.ok()) return std::nullopt;
  std::vector<int64_t> dims;
  for (const Number& number : *numbers) {
    const int64_t* dim = std::get_if<int64_t>(&number);
    if (dim == nullptr) return std::nullopt;
    dims.push_back(*dim);
  }
  return Shape(dims);
}

// "f32[2,3]" or "f32[2,3]=1,2,3,4,5,6"; nothing if `text` does not look like that.
StatusOr<std::optional<Argument>> ParseTensor(std::string_view text) {
  const size_t open = text.find('[');
  const size_t close = text.find(']');
  if (open == std::string_view::npos || close == std::string_view::npos || open == 0 ||
      close < open) {
    return std::optional<Argument>();
  }
  const std::string_view rest = text.substr(close + 1);
  if (!rest.empty() && rest.front() != '=') return std::optional<Argument>();
  LOCKSTEP_ASSIGN_OR_RETURN(const DType dtype, ParseDType(text.substr(0, open)));
  const std::optional<Shape> shape = ParseExtents(text.substr(open + 1, close - open - 1));
  if (!shape.has_value()) {
    return InvalidArgument("\"", text.substr(open, close + 1 - open),
                           "\" is no shape; expected extents such as [2,3]");
  }
  LOCKSTEP_RETURN_IF_ERROR(shape->Validate(SizeOf(dtype)));
  if (rest.empty()) return std::optional<Argument>(EmptyTensor{dtype, *shape});

  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<Number> numbers, ParseNumberList(rest.substr(1)));
  constexpr int64_t kMaxFilled = int64_t{1} << 24;
  if (numbers.size() == 1 && shape->NumElements() <= kMaxFilled) {
    numbers.resize(static_cast<size_t>(shape->NumElements()), numbers.front());
  }
  LOCKSTEP_ASSIGN_OR_RETURN(HostTensor tensor, MakeTensor(dtype, {*shape, std::move(numbers)}));
  return std::optional<Argument>(Value(std::move(tensor)));
}

StatusOr<Bytes> ParseHex(std::string_view digits) {
  const auto nibble = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  Bytes bytes;
  for (size_t i = 0; i < digits.size(); i += 2) {
    const int high = nibble(digits[i]);
    const int low = i + 1 < digits.size() ? nibble(digits[i + 1]) : -1;
    if (high < 0 || low < 0) {
      return InvalidArgument("\"hex:", digits, "\" is not pairs of hexadecimal digits");
    }
    bytes.data += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

Status NoValue(std::string_view text) {
  return InvalidArgument("\"", text, "\" is no value; for text write text:", text,
                         " or put it in quotes that survive your shell: '\"", text, "\"'");
}

StatusOr<Argument> ParseScalar(const std::string& text, const std::string& directory) {
  if (text.empty()) return InvalidArgument("a value is missing; for empty text write \"\"");
  if (text == "none" || text == "null" || text == "~") return Value(None{});
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<Number> number, ParseNumber(text));
  if (number.has_value()) {
    if (std::holds_alternative<uint64_t>(*number)) {
      return OutOfRange(text, " does not fit into an int64, whose largest is ",
                        std::numeric_limits<int64_t>::max(),
                        "; a float64 is written with a point or an exponent, a uint64 as a "
                        "tensor: u64[]=",
                        text);
    }
    return std::visit([](auto value) -> Argument { return Value(value); }, *number);
  }
  if (text.starts_with("text:")) return Value(text.substr(5));
  if (text.starts_with("hex:")) {
    LOCKSTEP_ASSIGN_OR_RETURN(Bytes bytes, ParseHex(std::string_view(text).substr(4)));
    return Value(std::move(bytes));
  }
  if (text.starts_with("npy:")) {
    const std::filesystem::path path = std::filesystem::path(directory) / text.substr(4);
    LOCKSTEP_ASSIGN_OR_RETURN(HostTensor tensor, ReadNpy(path.string()));
    return Value(std::move(tensor));
  }
  if (text.starts_with('$')) return RegisterReference{text.substr(1)};
  if (const auto dtype = ParseDType(text); dtype.ok()) return Value(*dtype);
  if (const auto device = ParseDevice(text); device.ok()) return Value(*device);
  LOCKSTEP_ASSIGN_OR_RETURN(std::optional<Argument> tensor, ParseTensor(text));
  if (tensor.has_value()) return *std::move(tensor);
  return NoValue(text);
}

Status AppendNumbers(const YAML::Node& node, int depth, NumberArray& array) {
  if (depth > kMaxDepth) return InvalidArgument("nested too deeply");
  if (node.IsScalar()) {
    if (array.shape.ndim() != depth) {
      return InvalidArgument("a number stands where a list of numbers is expected");
    }
    std::optional<Number> number;
    if (node.Tag() != kQuotedTag) {
      LOCKSTEP_ASSIGN_OR_RETURN(number, ParseNumber(node.Scalar()));
    }
    if (!number.has_value()) return InvalidArgument("\"", node.Scalar(), "\" is no number");
    array.numbers.push_back(*number);
    return OkStatus();
  }
  if (!node.IsSequence()) return InvalidArgument("expected numbers, or lists of numbers");
  if (array.shape.ndim() == depth) {
    return InvalidArgument("a list stands where a number is expected");
  }
  if (array.shape[depth] != static_cast<int64_t>(node.size())) {
    return InvalidArgument("ragged: lists of ", array.shape[depth], " and of ", node.size(),
                           " items on one level");
  }
  for (const YAML::Node& item : node) {
    LOCKSTEP_RETURN_IF_ERROR(AppendNumbers(item, depth + 1, array));
  }
  return OkStatus();
}

StatusOr<Argument> Read(const YAML::Node& node, const std::string& directory, int depth);

// An item of a list or map.
StatusOr<Value> ReadItem(const YAML::Node& node, const std::string& directory, int depth) {
  LOCKSTEP_ASSIGN_OR_RETURN(Argument item, Read(node, directory, depth));
  if (Value* value = std::get_if<Value>(&item)) return std::move(*value);
  if (const auto* reference = std::get_if<RegisterReference>(&item)) {
    return InvalidArgument("the register $", reference->name,
                           " can only stand alone, not inside a value");
  }
  return InvalidArgument("an uninitialised tensor cannot stand here; give its numbers after \"=\"");
}

StatusOr<Argument> ReadSequence(const YAML::Node& node, const std::string& directory, int depth) {
  Value::List list;
  bool all_integers = true;
  for (const YAML::Node& item : node) {
    LOCKSTEP_ASSIGN_OR_RETURN(Value value, ReadItem(item, directory, depth + 1));
    all_integers = all_integers && value.Is<int64_t>();
    list.push_back(std::move(value));
  }
  if (node.Tag() == "!list" || !all_integers) return Value(std::move(list));
  std::vector<int64_t> dims;
  for (const Value& value : list) dims.push_back(*value.As<int64_t>());
  return Value(Shape(dims));
}

StatusOr<Argument> Read(const YAML::Node& node, const std::string& directory, int depth) {
  if (depth > kMaxDepth) return InvalidArgument("nested too deeply");
  if (HasOwnTag(node) && node.Tag() != "!list") {
    const auto dtype = ParseDType(std::string_view(node.Tag()).substr(1));
    if (!dtype.ok()) {
      return InvalidArgument("unknown tag ", node.Tag(), "; a tag is !list or a dtype, as in !f32");
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const NumberArray array, ReadNumbers(node));
    LOCKSTEP_ASSIGN_OR_RETURN(HostTensor tensor, MakeTensor(*dtype, array));
    return Value(std::move(tensor));
  }
  if (node.IsNull()) return Value(None{});
  if (node.IsScalar()) {
    if (node.Tag() == kQuotedTag) return Value(node.Scalar());
    return ParseScalar(node.Scalar(), directory);
  }
  if (node.IsSequence()) return ReadSequence(node, directory, depth);
  if (!node.IsMap()) return InvalidArgument("a value is missing");
  Value::Map map;
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) return InvalidArgument("the keys of a map are text");
    LOCKSTEP_ASSIGN_OR_RETURN(Value value, ReadItem(entry.second, directory, depth + 1));
    if (!map.emplace(entry.first.Scalar(), std::move(value)).second) {
      return InvalidArgument("the key \"", entry.first.Scalar(), "\" is given twice");
    }
  }
  return Value(std::move(map));
}

}  // namespace

StatusOr<NumberArray> ReadNumbers(const YAML::Node& node) {
  // The first item of each level gives the shape; the others must agree with it.
  NumberArray array;
  std::vector<int64_t> dims;
  YAML::Node level = node;
  while (level.IsSequence() && dims.size() <= kMaxDepth) {
    dims.push_back(static_cast<int64_t>(level.size()));
    if (level.size() == 0) break;
    level.reset(level[0]);
  }
  array.shape = Shape(dims);
  LOCKSTEP_RETURN_IF_ERROR(AppendNumbers(node, 0, array));
  return array;
}

StatusOr<Argument> ReadArgument(const YAML::Node& node, const std::string& directory) {
  return Read(node, directory, 0);
}

StatusOr<Value> ReadValue(const YAML::Node& node, const std::string& directory) {
  return ReadItem(node, directory, 0);
}

StatusOr<Argument> ParseArgument(const std::string& text) {
  YAML::Node node;
  try {
    node.reset(config::ReadYamlDocument(text, {.bytes = kMaxArgumentBytes}).root);
  } catch (const YAML::Exception& error) {
    return InvalidArgument("\"", text, "\" is no value: ", error.msg);
  }
  if (text.empty()) return ParseScalar("", ".");
  StatusOr<Argument> argument = Read(node, ".", 0);
  if (argument.ok() && std::holds_alternative<RegisterReference>(*argument)) {
    return InvalidArgument(text, ": registers have names only in program files (lockstep run)");
  }
  return argument;
}

StatusOr<DRef> CallWithArguments(Session& session, const DRef& function,
                                 const std::vector<Argument>& arguments,
                                 const std::function<DRef(const std::string&)>& find_register) {
  // The session borrows its arguments; a deque's elements stay where they are.
  std::deque<DRef> registers;
  std::vector<client::Argument> views;
  views.reserve(arguments.size());
  for (const Argument& argument : arguments) {
    if (const Value* value = std::get_if<Value>(&argument)) {
      views.emplace_back(*value);
      continue;
    }
    if (const auto* empty = std::get_if<EmptyTensor>(&argument)) {
      LOCKSTEP_ASSIGN_OR_RETURN(DRef tensor, session.Empty(empty->shape, empty->dtype));
      registers.push_back(std::move(tensor));
    } else {
      registers.push_back(find_register(std::get<RegisterReference>(argument).name));
    }
    views.emplace_back(registers.back());
  }
  return session.CallWith(function, views);
}

}  // namespace lockstep::cli
