#include "runtime/fragment/kernel_signature.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <optional>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/fragment/source_cursor.h"

namespace lockstep::fragment {
namespace {

constexpr std::string_view kMark = "lockstep:";
constexpr size_t kMaxNumbers = 64;

bool BeginsName(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsOfName(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string Quoted(std::string_view text) { return "`" + std::string(text) + "`"; }

// The kernel that a signature begins with: a name, or whatever else C++ calls it by.
std::string_view KernelOf(std::string_view text) {
  text = text.substr(0, text.find_first_of("(\n"));
  while (!text.empty() && SourceCursor::IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

// Just before the kernel's name in the comment that is its signature; none: there is no such.
std::optional<SourceCursor> FindSignature(std::string_view source, std::string_view kernel) {
  SourceCursor cursor(source);
  do {
    cursor.SkipBlanks();
    if (!cursor.SkipText("//")) continue;
    cursor.SkipBlanks();
    if (!cursor.SkipText(kMark)) continue;
    cursor.SkipBlanks();
    if (KernelOf(cursor.Rest()) == kernel) return cursor;
  } while (cursor.NextLine());
  return std::nullopt;
}

// Each Read...() returns false where it has found an error, which is the first.
class Parser {
 public:
  Parser(SourceCursor cursor, std::string_view kernel) : cursor_(cursor) {
    read_.line = cursor.line();
    read_.column = cursor.column();
    read_.signature.function = kernel;
    cursor_.Skip(kernel.size());
  }

  std::variant<KernelSignature, SourceError> Parse() {
    if (!ReadAll()) return error_;
    for (const KernelSignature::Result& result : read_.results) {
      FinishType(result);
    }
    if (const Status valid = read_.signature.Validate(); !valid.ok()) {
      return SourceError{read_.line, read_.column, Message(valid)};
    }
    return std::move(read_);
  }

 private:
  bool ReadAll() {
    return ReadList([this] { return ReadArgument(); }) && Expect("->") &&
           ReadList([this] { return ReadResult(); }) && ReadThreads();
  }

  bool Fail(std::string message) {
    error_ = {cursor_.line(), cursor_.column(), std::move(message)};
    return false;
  }
  // At what begins a word that was read meanwhile.
  bool FailAt(const SourceCursor& place, std::string message) {
    cursor_ = place;
    return Fail(std::move(message));
  }

  // What is between two words; the comment may go on in the next line.
  void SkipSpace() {
    cursor_.SkipBlanks();
    while (cursor_.AtLineEnd()) {
      SourceCursor next = cursor_;
      if (!next.NextLine()) return;
      next.SkipBlanks();
      if (!next.SkipText("//")) return;
      next.SkipBlanks();
      cursor_ = next;
    }
  }
  bool Take(std::string_view text) {
    SkipSpace();
    return cursor_.SkipText(text);
  }
  bool Expect(std::string_view text) {
    return Take(text) || Fail("the signature needs " + Quoted(text) + " here");
  }
  // A word of the language, such as `from`.
  bool TakeWord(std::string_view word) {
    const std::string_view rest = cursor_.Rest();
    const bool is_it =
        rest.starts_with(word) && (rest.size() == word.size() || !IsOfName(rest[word.size()]));
    if (is_it) cursor_.Skip(word.size());
    return is_it;
  }

  bool ReadName(std::string_view of_what, std::string* name) {
    SkipSpace();
    if (!BeginsName(cursor_.Peek())) return Fail("the signature needs " + std::string(of_what));
    const std::string_view rest = cursor_.Rest();
    const auto end = std::find_if_not(rest.begin(), rest.end(), IsOfName);
    *name = rest.substr(0, static_cast<size_t>(end - rest.begin()));
    cursor_.Skip(name->size());
    return true;
  }

  template <typename ReadOne>
  bool ReadList(ReadOne read_one) {
    if (!Expect("(")) return false;
    if (Take(")")) return true;
    do {
      if (!read_one()) return false;
    } while (Take(","));
    return Expect(")");
  }

  bool ReadArgument() {
    KernelSignature::Argument argument;
    TensorType type;
    if (!ReadNewName("an argument's name", &argument.name) || !ReadDType(&type)) return false;
    Signature::Argument stated;
    type.scalar = !Take("[");
    if (type.scalar) {
      if (type.dtype == DType::kInt64 || type.dtype == DType::kInt32) {
        argument.number = static_cast<int>(read_.numbers.size());
        read_.numbers.push_back({argument.name, true});
      }
    } else {
      do {
        KernelSignature::Dimension dimension;
        if (!ReadDimension(&dimension)) return false;
        stated.uses_offset = stated.uses_offset || dimension.offset >= 0;
        stated.uses_global_shape = stated.uses_global_shape || dimension.whole >= 0;
        type.extents.push_back(dimension.extent.number >= 0 ? kOpen : dimension.extent.stated);
        argument.dimensions.push_back(dimension);
      } while (Take(","));
      if (!Expect("]")) return false;
    }
    stated.type = std::move(type);
    read_.signature.arguments.push_back(std::move(stated));
    read_.arguments.push_back(std::move(argument));
    return true;
  }

  bool ReadDimension(KernelSignature::Dimension* dimension) {
    SkipSpace();
    if (cursor_.Peek() == ']') {
      return Fail("an argument without dimensions is a number: it has no brackets");
    }
    if (!ReadExtent(&dimension->extent)) return false;
    SkipSpace();
    if (TakeWord("from") && !ReadNumber(&dimension->offset)) return false;
    SkipSpace();
    return !TakeWord("of") || ReadNumber(&dimension->whole);
  }

  bool ReadResult() {
    KernelSignature::Result result;
    TensorType type;
    if (!ReadNewName("a result's name", &result.name) || !ReadDType(&type)) return false;
    type.scalar = !Take("[");
    if (!type.scalar && !Take("]")) {
      do {
        KernelSignature::Extent extent;
        if (!ReadExtent(&extent)) return false;
        result.extents.push_back(extent);
      } while (Take(","));
      if (!Expect("]")) return false;
    }
    read_.signature.results.push_back({std::move(type), /*sizes_known=*/true});
    read_.results.push_back(std::move(result));
    return true;
  }

  bool ReadDType(TensorType* type) {
    if (!Expect(":")) return false;
    std::string name;
    SkipSpace();
    const SourceCursor place = cursor_;
    if (!ReadName("a dtype", &name)) return false;
    const StatusOr<DType> dtype = ParseDType(name);
    if (!dtype.ok() || !IsFragmentDType(*dtype)) {
      return FailAt(place, Quoted(name) +
                               " is no dtype of fragments, which are float32, float64, " +
                               "int32, int64 and bool");
    }
    type->dtype = *dtype;
    return true;
  }

  // Of an argument or a result.
  bool ReadNewName(std::string_view of_what, std::string* name) {
    SkipSpace();
    const SourceCursor place = cursor_;
    if (!ReadName(of_what, name)) return false;
    if (std::find(names_.begin(), names_.end(), *name) != names_.end() || FindNumber(*name) >= 0) {
      return FailAt(place, "the signature has two things called " + Quoted(*name));
    }
    names_.push_back(*name);
    return true;
  }

  bool ReadExtent(KernelSignature::Extent* extent) {
    SkipSpace();
    if (cursor_.Peek() == '?') return Fail("the kernel is told extents by name: give it one");
    if (std::isdigit(static_cast<unsigned char>(cursor_.Peek())) == 0) {
      return ReadNumber(&extent->number);
    }
    while (std::isdigit(static_cast<unsigned char>(cursor_.Peek())) != 0) {
      const int64_t digit = cursor_.Peek() - '0';
      if (extent->stated > (std::numeric_limits<int64_t>::max() - digit) / 10) {
        return Fail("the extent is too large");
      }
      extent->stated = extent->stated * 10 + digit;
      cursor_.Skip(1);
    }
    return true;
  }

  bool ReadNumber(int* number) {
    std::string name;
    SkipSpace();
    const SourceCursor place = cursor_;
    if (!ReadName("an extent: a name, or an integer", &name)) return false;
    *number = FindNumber(name);
    if (*number >= 0) return true;
    if (std::find(names_.begin(), names_.end(), name) != names_.end()) {
      return FailAt(place, Quoted(name) + " is no integer, so it is no extent");
    }
    if (read_.numbers.size() == kMaxNumbers) {
      return FailAt(place, "the signature has more than " + std::to_string(kMaxNumbers) + " names");
    }
    *number = static_cast<int>(read_.numbers.size());
    read_.numbers.push_back({std::move(name)});
    return true;
  }

  // After the results: on the same line, so that what is told below it is prose.
  bool ReadThreads() {
    if (read_.results.empty()) return Fail("a kernel needs a result, which is what it computes");
    cursor_.SkipBlanks();
    if (TakeWord("over")) {
      do {
        cursor_.SkipBlanks();
        const size_t known = read_.numbers.size();
        const SourceCursor place = cursor_;
        KernelSignature::Extent extent;
        if (!ReadExtent(&extent)) return false;
        if (read_.numbers.size() > known) {
          return FailAt(place, Quoted(read_.numbers.back().name) + " is not known: no argument " +
                                   "and no result has an extent of that name");
        }
        read_.threads.push_back(extent);
        cursor_.SkipBlanks();
      } while (cursor_.SkipText("*"));
    }
    return cursor_.AtLineEnd() || Fail("the signature ends before this");
  }

  // Its type, now that it is known which numbers arguments tell.
  void FinishType(const KernelSignature::Result& result) {
    const auto index = static_cast<size_t>(&result - read_.results.data());
    Signature::Result& stated = read_.signature.results[index];
    for (const KernelSignature::Extent& extent : result.extents) {
      stated.type.extents.push_back(extent.number >= 0 ? kOpen : extent.stated);
      stated.sizes_known = stated.sizes_known && (extent.number < 0 || IsTold(extent.number));
    }
  }
  bool IsTold(int number) const {
    if (Numbered(number).is_argument) return true;
    for (const KernelSignature::Argument& argument : read_.arguments) {
      for (const KernelSignature::Dimension& dimension : argument.dimensions) {
        if (dimension.extent.number == number || dimension.offset == number ||
            dimension.whole == number) {
          return true;
        }
      }
    }
    return false;
  }

  const KernelSignature::Number& Numbered(int number) const {
    return read_.numbers[static_cast<size_t>(number)];
  }
  // -1: there is none of that name.
  int FindNumber(std::string_view name) const {
    const auto found =
        std::find_if(read_.numbers.begin(), read_.numbers.end(),
                     [&](const KernelSignature::Number& number) { return number.name == name; });
    return found == read_.numbers.end() ? -1 : static_cast<int>(found - read_.numbers.begin());
  }

  SourceCursor cursor_;
  KernelSignature read_;
  std::vector<std::string> names_;  // of arguments and results
  SourceError error_;
};

// As NVRTC knows it.
std::string CxxType(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "bool";
    case DType::kInt32:
      return "int";
    case DType::kInt64:
      return "int64_t";
    case DType::kFloat32:
      return "float";
    default:
      return "double";  // the parser takes no other
  }
}

}  // namespace

std::vector<KernelSignature::Parameter> KernelSignature::Parameters() const {
  std::vector<Parameter> parameters;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const TensorType& type = signature.arguments[i].type;
    const std::string element = CxxType(type.dtype);
    parameters.push_back({type.scalar ? element : "const " + element + "*", arguments[i].name});
  }
  for (size_t i = 0; i < results.size(); ++i) {
    parameters.push_back({CxxType(signature.results[i].type.dtype) + "*", results[i].name});
  }
  for (const Number& number : numbers) {
    if (!number.is_argument) parameters.push_back({"int64_t", number.name});
  }
  return parameters;
}

std::variant<KernelSignature, SourceError> ParseKernelSignature(std::string_view source,
                                                                std::string_view kernel) {
  const std::optional<SourceCursor> found = FindSignature(source, kernel);
  if (!found.has_value()) {
    return SourceError{1, 1,
                       "no comment states what " + Quoted(kernel) + " takes and gives: write `// " +
                           std::string(kMark) + " " + std::string(kernel) +
                           "(x: float64[n]) -> (y: float64[n])` above it, with its own arguments " +
                           "and results"};
  }
  return Parser(*found, kernel).Parse();
}

}  // namespace lockstep::fragment
