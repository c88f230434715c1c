#include "runtime/fragment/object_key.h"

#include <sodium.h>

#include <array>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "runtime/fragment/abi.h"

namespace lockstep::fragment {
namespace {

// Of what is hashed, and of the files that are named by it.
constexpr uint64_t kVersion = 1;

// Texts with their lengths before them, so that no two lists of parts are the same bytes.
class Hasher {
 public:
  Hasher() { crypto_generichash_init(&state_, nullptr, 0, kBytes); }

  void Add(uint64_t number) {
    std::array<unsigned char, sizeof number> bytes;
    for (unsigned char& byte : bytes) {
      byte = static_cast<unsigned char>(number);
      number >>= 8;
    }
    crypto_generichash_update(&state_, bytes.data(), bytes.size());
  }
  void Add(std::string_view text) {
    Add(text.size());
    crypto_generichash_update(&state_, reinterpret_cast<const unsigned char*>(text.data()),
                              text.size());
  }
  ObjectKey Finish() {
    std::array<unsigned char, kBytes> digest;
    crypto_generichash_final(&state_, digest.data(), digest.size());
    ObjectKey key;
    for (size_t i = 0; i < 8; ++i) {
      key.high = key.high << 8 | digest[i];
      key.low = key.low << 8 | digest[8 + i];
    }
    return key;
  }

 private:
  static constexpr size_t kBytes = 16;
  static_assert(kBytes >= crypto_generichash_BYTES_MIN);

  crypto_generichash_state state_;
};

}  // namespace

std::string ObjectKey::ToString() const {
  return absl::StrCat(absl::Hex(high, absl::kZeroPad16), absl::Hex(low, absl::kZeroPad16));
}

uint64_t DigestOf(const Signature& signature) {
  Hasher hasher;
  const auto add_type = [&](const TensorType& type) {
    hasher.Add(static_cast<uint64_t>(type.dtype));
    hasher.Add(type.extents.size());
    for (const int64_t extent : type.extents) hasher.Add(static_cast<uint64_t>(extent));
    hasher.Add(uint64_t{type.scalar});
  };
  hasher.Add(signature.function);
  hasher.Add(signature.arguments.size());
  for (const Signature::Argument& argument : signature.arguments) {
    add_type(argument.type);
    hasher.Add(uint64_t{argument.uses_offset});
    hasher.Add(uint64_t{argument.uses_global_shape});
  }
  for (const Signature::Result& result : signature.results) {
    add_type(result.type);
    hasher.Add(uint64_t{result.sizes_known});
  }
  return hasher.Finish().low;
}

ObjectKey KeyOf(const CompileWork& work, const CompilerIdentity& compiler) {
  Hasher hasher;
  hasher.Add(kVersion);
  hasher.Add(LOCKSTEP_FRAGMENT_ABI_VERSION);
  hasher.Add(static_cast<uint64_t>(work.fragment.kind()));
  hasher.Add(work.fragment.source());
  hasher.Add(work.fragment.entry());
  hasher.Add(work.types.size());
  for (const TensorType& type : work.types) {
    hasher.Add(static_cast<uint64_t>(type.dtype));
    hasher.Add(type.extents.size());
    for (const int64_t extent : type.extents) hasher.Add(static_cast<uint64_t>(extent));
  }
  hasher.Add(static_cast<uint64_t>(work.blas_threshold));
  hasher.Add(compiler.compiler);
  hasher.Add(compiler.processor);
  hasher.Add(compiler.features);
  return hasher.Finish();
}

}  // namespace lockstep::fragment
