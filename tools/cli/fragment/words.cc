#include "tools/cli/fragment/words.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "tools/cli/argument.h"
#include "tools/cli/npy.h"

namespace lockstep::cli {
namespace {

bool IsNameCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '$' ||
         c == '-';
}

bool IsName(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsNameCharacter);
}

// What follows the last colon, if that is to be a split or combine and no part of a file's name.
std::optional<std::string_view> TakeSuffix(std::string_view& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view suffix = text.substr(colon + 1);
  const bool is_word = std::all_of(suffix.begin(), suffix.end(), [](char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0;
  });
  if (!is_word) return std::nullopt;
  text = text.substr(0, colon);
  return suffix;
}

StatusOr<std::variant<HostTensor, bool, int64_t, double>> ReadInputValue(const std::string& text) {
  if (text.ends_with(".npy") && !text.starts_with("npy:")) {
    LOCKSTEP_ASSIGN_OR_RETURN(HostTensor tensor, ReadNpy(text));
    return tensor;
  }
  const StatusOr<Argument> argument = ParseArgument(text);
  // What is wrong with a tensor or a file it says best. Of anything else it says how to write text.
  if (!argument.ok() && text.find_first_of("[:") != std::string::npos) return argument.status();
  if (const auto* value = argument.ok() ? std::get_if<Value>(&*argument) : nullptr) {
    if (const auto* tensor = value->As<HostTensor>()) return *tensor;
    if (const auto* truth = value->As<bool>()) return *truth;
    if (const auto* integer = value->As<int64_t>()) return *integer;
    if (const auto* real = value->As<double>()) return *real;
  }
  return InvalidArgument("\"", text,
                         "\" is neither a number nor a tensor; expected FILE.npy, 0.5, "
                         "3, true, or f64[2,2]=1,2,3,4");
}

StatusOr<Shape> ParseExtents(std::string_view text) {
  std::vector<int64_t> dims;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string extent(text.substr(0, comma));
    const bool is_number = !extent.empty() && extent.size() < 18 &&
                           std::all_of(extent.begin(), extent.end(), [](char c) {
                             return std::isdigit(static_cast<unsigned char>(c)) != 0;
                           });
    if (!is_number) return InvalidArgument("\"", extent, "\" is no extent");
    dims.push_back(std::stoll(extent));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return Shape(dims);
}

StatusOr<GivenInput> ReadInput(std::string_view text) {
  GivenInput input;
  const size_t equals = text.find('=');
  if (equals != std::string_view::npos && IsName(text.substr(0, equals))) {
    input.name = text.substr(0, equals);
    text.remove_prefix(equals + 1);
  }
  std::optional<std::string_view> split;
  // "text:rows" has no value before its colon, but says how it is meant.
  if (!text.starts_with("npy:") || text.find(':') != text.rfind(':')) split = TakeSuffix(text);
  if (split.has_value()) {
    const StatusOr<fragment::Split> parsed = fragment::ParseSplit(*split);
    // What comes from here is placed nowhere yet.
    if (!parsed.ok() || *parsed == fragment::Split::kAsPlaced) {
      return InvalidArgument("\"", *split, "\" is no split; expected rows, columns or none");
    }
    input.split = *parsed;
  }
  input.text = text;
  LOCKSTEP_ASSIGN_OR_RETURN(input.value, ReadInputValue(input.text));
  if (input.tensor() == nullptr && input.split != fragment::Split::kNone) {
    return InvalidArgument("a number is not split");
  }
  return input;
}

StatusOr<GivenOutput> ReadOutput(std::string_view text) {
  GivenOutput output;
  if (const auto combine = TakeSuffix(text); combine.has_value()) {
    LOCKSTEP_ASSIGN_OR_RETURN(output.combine, fragment::ParseCombine(*combine));
  }
  if (const size_t equals = text.find('='); equals != std::string_view::npos) {
    output.file = text.substr(equals + 1);
    text = text.substr(0, equals);
    if (!output.file.ends_with(".npy")) {
      return InvalidArgument("\"", output.file, "\" is no .npy file");
    }
  }
  if (const size_t open = text.find('['); open != std::string_view::npos && text.ends_with(']')) {
    LOCKSTEP_ASSIGN_OR_RETURN(output.shape,
                              ParseExtents(text.substr(open + 1, text.size() - open - 2)));
    text = text.substr(0, open);
  }
  if (!IsName(text)) {
    return InvalidArgument("expected NAME[=FILE.npy][:COMBINE], such as y:rows or y=out.npy:add");
  }
  output.name = text;
  return output;
}

// `mlir` without what follows "//", up to its first function's arguments: "%x: tensor<2xf64>, ...".
std::string FirstArguments(std::string_view mlir) {
  std::string text;
  while (!mlir.empty()) {
    const size_t end = std::min(mlir.find('\n'), mlir.size());
    const std::string_view line = mlir.substr(0, end);
    text += line.substr(0, line.find("//"));
    text += '\n';
    mlir.remove_prefix(std::min(end + 1, mlir.size()));
  }
  const size_t function = text.find("func.func");
  const size_t open = function == std::string::npos ? function : text.find('(', function);
  if (open == std::string::npos) return "";
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')' && --depth == 0) return text.substr(open + 1, i - open - 1);
  }
  return "";
}

// "%x: tensor<2xf64>, %y: f64": each of them, without blanks around it.
std::vector<std::string> SplitArguments(std::string_view arguments) {
  std::vector<std::string> split(1);
  int depth = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const char c = arguments[i];
    // "->" of a function type closes nothing.
    if (c == '<' || c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}' || (c == '>' && (i == 0 || arguments[i - 1] != '-'))) {
      --depth;
    }
    const bool is_blank = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (c == ',' && depth == 0) {
      split.emplace_back();
    } else if (!is_blank || !split.back().empty()) {
      split.back() += c;
    }
  }
  if (split.back().empty()) split.pop_back();
  return split;
}

// "\"w\" of `scores`"
std::string Called(const std::string& name, const fragment::Signature& signature) {
  return "\"" + name + "\" of `" + signature.function + "`";
}

}  // namespace

StatusOr<GivenInput> ParseInput(const std::string& text) {
  StatusOr<GivenInput> input = ReadInput(text);
  return input.ok() ? input : Annotate(input.status(), "--input " + text);
}

StatusOr<GivenOutput> ParseOutput(const std::string& text) {
  StatusOr<GivenOutput> output = ReadOutput(text);
  return output.ok() ? output : Annotate(output.status(), "--output " + text);
}

std::vector<std::string> ArgumentNames(std::string_view mlir) {
  std::vector<std::string> names;
  for (const std::string& argument : SplitArguments(FirstArguments(mlir))) {
    if (argument.empty() || argument.front() != '%') return {};
    // Those that workers pass by themselves.
    if (argument.find("lockstep.offset") != std::string::npos ||
        argument.find("lockstep.global_size") != std::string::npos) {
      continue;
    }
    size_t end = 1;
    while (end < argument.size() && IsNameCharacter(argument[end])) ++end;
    names.push_back(argument.substr(1, end - 1));
  }
  return names;
}

StatusOr<std::vector<GivenInput>> InArgumentOrder(std::vector<GivenInput> inputs,
                                                  const std::vector<std::string>& names,
                                                  const fragment::Signature& signature) {
  // Too many or too few of them are an error of the call, which says what it expects.
  const auto count = static_cast<size_t>(signature.num_arguments());
  if (inputs.size() != count) return inputs;
  if (names.size() != count) {
    const auto named = std::find_if(inputs.begin(), inputs.end(),
                                    [](const GivenInput& input) { return !input.name.empty(); });
    if (named == inputs.end()) return inputs;
    return InvalidArgument("the fragment does not tell what `", signature.function, "` calls its ",
                           "arguments, so there is no ", Called(named->name, signature),
                           "; give all inputs without names, in the order of the arguments");
  }
  std::vector<std::optional<GivenInput>> places(count);
  std::vector<GivenInput> unnamed;
  for (GivenInput& input : inputs) {
    if (input.name.empty()) {
      unnamed.push_back(std::move(input));
      continue;
    }
    const auto found = std::find(names.begin(), names.end(), input.name);
    if (found == names.end()) {
      std::string list;
      for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
      return InvalidArgument("there is no argument ", Called(input.name, signature),
                             "; its arguments are ", list);
    }
    std::optional<GivenInput>& place = places[static_cast<size_t>(found - names.begin())];
    if (place.has_value()) {
      return InvalidArgument("argument ", Called(input.name, signature), " is given twice");
    }
    place = std::move(input);
  }
  auto next = unnamed.begin();
  std::vector<GivenInput> ordered;
  for (size_t i = 0; i < count; ++i) {
    if (!places[i].has_value()) {
      places[i] = std::move(*next++);
      places[i]->name = names[i];
    }
    ordered.push_back(*std::move(places[i]));
  }
  return ordered;
}

}  // namespace lockstep::cli
