#include "services/compiler/cuda/compile_kernel.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

namespace lockstep::compiler {
namespace {

using fragment::KernelSignature;

// What errors in the check are said to be of.
constexpr std::string_view kCheckFile = "lockstep-signature";

// (const double* x, int64_t n)
std::string ParametersText(const KernelSignature& signature, bool with_names) {
  std::string text;
  for (const KernelSignature::Parameter& parameter : signature.Parameters()) {
    if (!text.empty()) text += ", ";
    text += parameter.type + (with_names ? " " + parameter.name : "");
  }
  return text;
}

// A kernel that takes something else than it is given reads and writes anywhere: so the compiler
// compares the two. On one line, and said to be where the signature is. The names are such as no
// source has macros for: T, A and B are common ones.
std::string Check(const KernelSignature& signature, const std::string& kernel) {
  constexpr std::string_view kTypes =
      "namespace lockstep_signature {"
      // As long as each other, and the one or the other is int64_t.
      " template <class lockstep_t> struct lockstep_element { using lockstep_type = lockstep_t; };"
      " template <> struct lockstep_element<long long> { using lockstep_type = long; };"
      " template <> struct lockstep_element<long long*> { using lockstep_type = long*; };"
      " template <> struct lockstep_element<const long long*>"
      " { using lockstep_type = const long*; };"
      " template <class...> struct lockstep_list {};"
      " template <class> struct lockstep_taken;"
      " template <class... lockstep_t> struct lockstep_taken<void (*)(lockstep_t...)> { using"
      " lockstep_types = lockstep_list<typename lockstep_element<lockstep_t>::lockstep_type...>; };"
      " template <class, class> struct lockstep_same { static constexpr bool lockstep_is = false; "
      "};"
      " template <class lockstep_t> struct lockstep_same<lockstep_t, lockstep_t>"
      " { static constexpr bool lockstep_is = true; };";
  return "\n#line " + std::to_string(signature.line) + " \"" + std::string(kCheckFile) + "\"\n" +
         std::string(kTypes) + " static_assert(lockstep_same<lockstep_taken<decltype(&" + kernel +
         ")>::lockstep_types, lockstep_taken<void (*)(" +
         ParametersText(signature, /*with_names=*/false) +
         ")>::lockstep_types>::lockstep_is, \"by its signature the kernel takes (" +
         ParametersText(signature, /*with_names=*/true) + ")\"); }\n";
}

std::string_view NextLine(std::string_view* text) {
  const size_t end = std::min(text->find('\n'), text->size());
  const std::string_view line = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return line;
}

// "name(LINE): error: MESSAGE", and what NVRTC calls by other words.
struct LogLine {
  std::string_view file;
  uint32_t line = 0;
  std::string_view message;
};
std::optional<LogLine> ReadError(std::string_view text) {
  const size_t colon = text.find("): ");
  const size_t open = text.rfind('(', colon);
  if (colon == std::string_view::npos || open == std::string_view::npos) return std::nullopt;
  LogLine read;
  read.file = text.substr(0, open);
  const std::string_view number = text.substr(open + 1, colon - open - 1);
  const auto [end, error] = std::from_chars(number.begin(), number.end(), read.line);
  if (error != std::errc() || end != number.end()) return std::nullopt;
  const std::string_view rest = text.substr(colon + 3);
  const size_t kind = rest.find("error");
  const size_t begin = rest.find(": ");
  if (kind == std::string_view::npos || begin == std::string_view::npos || kind > begin) {
    return std::nullopt;
  }
  read.message = rest.substr(begin + 2);
  return read;
}

// Below an error, its line is shown, indented by two, and a caret below its place; 0: it is not.
uint32_t ColumnOf(std::string_view below) {
  constexpr size_t kIndent = 2;
  while (!below.empty()) {
    const std::string_view line = NextLine(&below);
    const size_t caret = line.find_first_not_of(" \t");
    if (caret == std::string_view::npos) return 0;
    if (line[caret] == '^' && caret >= kIndent) return static_cast<uint32_t>(caret - kIndent + 1);
  }
  return 0;
}

// The first error of a log.
KernelFailure ReadLog(std::string_view log, const KernelSignature& signature) {
  for (std::string_view rest = log; !rest.empty();) {
    const std::optional<LogLine> error = ReadError(NextLine(&rest));
    if (!error.has_value()) continue;
    std::string message(error->message);
    if (error->file != kCheckFile) {
      return {InvalidArgument(message), error->line, ColumnOf(rest)};
    }
    constexpr std::string_view kAssertion = "static assertion failed with ";
    if (message.starts_with(kAssertion)) message.erase(0, kAssertion.size());
    std::erase(message, '"');
    return {InvalidArgument(message), signature.line, signature.column};
  }
  constexpr size_t kMostBytes = 1024;
  return {InvalidArgument("NVRTC does not accept it: ", std::string(log.substr(0, kMostBytes)))};
}

}  // namespace

std::variant<CompiledKernel, KernelFailure> CompileKernel(const Nvrtc& nvrtc,
                                                          const KernelSource& source,
                                                          int architecture, bool wants_image) {
  auto parsed = fragment::ParseKernelSignature(source.text, source.kernel);
  if (const auto* error = std::get_if<fragment::SourceError>(&parsed)) {
    return KernelFailure{InvalidArgument(error->message), error->line, error->column};
  }
  const auto& signature = std::get<KernelSignature>(parsed);
  CompiledKernel compiled{signature.signature, {}};
  if (!wants_image) return compiled;
  std::string log;
  const KernelSource checked{source.text + Check(signature, source.kernel), source.kernel};
  StatusOr<KernelImage> image = nvrtc.Compile(checked, architecture, &log);
  if (!image.ok()) return KernelFailure{image.status()};
  if (image->bytes.empty()) return ReadLog(log, signature);
  compiled.image = *std::move(image);
  return compiled;
}

}  // namespace lockstep::compiler
