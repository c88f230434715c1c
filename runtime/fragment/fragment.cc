#include "runtime/fragment/fragment.h"

#include <utility>

#include "runtime/base/utf8.h"
#include "runtime/fragment/object_key.h"

namespace lockstep::fragment {
namespace {

constexpr std::string_view kBytecodeMagic = "ML\xefR";

// Without zero bytes, which would end it early for a library of C.
bool IsText(std::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8SequenceLength(text);
    if (length == 0 || text.front() == '\0') return false;
    text.remove_prefix(length);
  }
  return true;
}

Status CheckName(std::string_view what, std::string_view name) {
  if (name.empty()) return InvalidArgument("a fragment needs ", what);
  if (name.size() > Fragment::kMaxNameBytes) {
    return InvalidArgument(what, " of a fragment has at most ", Fragment::kMaxNameBytes,
                           " bytes, this one has ", name.size());
  }
  if (!IsText(name)) return InvalidArgument(what, " of a fragment is no UTF-8 text");
  return OkStatus();
}

Status CheckSource(std::string_view language, std::string_view source, bool is_text) {
  if (source.empty()) return InvalidArgument("a fragment of ", language, " is empty");
  if (source.size() > Fragment::kMaxSourceBytes) {
    return InvalidArgument("a fragment of ", language, " has at most ", Fragment::kMaxSourceBytes,
                           " bytes, this one has ", source.size());
  }
  if (is_text && !IsText(source)) {
    return InvalidArgument("a fragment of ", language, " is no UTF-8 text");
  }
  return OkStatus();
}

}  // namespace

std::string_view Name(Kind kind) {
  switch (kind) {
    case Kind::kMlir:
      return "mlir";
    case Kind::kCuda:
      return "cuda";
    case Kind::kFunction:
      return "function";
  }
  __builtin_unreachable();  // a Kind is always one of these
}

Fragment::Fragment(Kind kind, std::string source, std::string entry, std::string name)
    : kind_(kind), source_(std::move(source)), entry_(std::move(entry)), name_(std::move(name)) {
  key_ = KeyOf({*this}, CompilerIdentity());
}

StatusOr<Fragment> Fragment::Mlir(std::string source, std::string name) {
  LOCKSTEP_RETURN_IF_ERROR(CheckName("the name", name));
  const bool is_text = !source.starts_with(kBytecodeMagic);
  LOCKSTEP_RETURN_IF_ERROR(CheckSource("MLIR", source, is_text));
  return Fragment(Kind::kMlir, std::move(source), "", std::move(name));
}

StatusOr<Fragment> Fragment::Cuda(std::string source, std::string kernel, std::string name) {
  LOCKSTEP_RETURN_IF_ERROR(CheckName("the name", name));
  LOCKSTEP_RETURN_IF_ERROR(CheckName("the kernel's name", kernel));
  LOCKSTEP_RETURN_IF_ERROR(CheckSource("CUDA C++", source, /*is_text=*/true));
  return Fragment(Kind::kCuda, std::move(source), std::move(kernel), std::move(name));
}

StatusOr<Fragment> Fragment::Function(std::string function) {
  LOCKSTEP_RETURN_IF_ERROR(CheckName("the function's name", function));
  std::string name = function;
  return Fragment(Kind::kFunction, "", std::move(function), std::move(name));
}

bool Fragment::is_bytecode() const { return source_.starts_with(kBytecodeMagic); }

}  // namespace lockstep::fragment
