// What the compiler is asked, and what it answers, as bytes (schemas/fragment.capnp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/fragment/object_key.h"
#include "runtime/fragment/signature.h"

namespace lockstep::fragment {

// The largest object that is asked for, and the largest answer that is read: an object, and what is
// said with it.
inline constexpr uint64_t kMaxObjectBytes = uint64_t{64} << 20;
inline constexpr size_t kMaxAnswerBytes = kMaxObjectBytes + (size_t{1} << 20);

enum class Want : uint8_t { kSignature, kObject };

// A request for the machine that the compiler runs on. kUnimplemented: the fragment is neither MLIR
// nor CUDA C++.
StatusOr<std::string> EncodeRequest(const CompileWork& work, Want want);

// What a compiler has made of a fragment.
struct Compiled {
  CompilerIdentity compiler;
  Signature signature;
  // A shared object, or, of CUDA C++, an image for the GPU; empty if only the signature was asked
  // for.
  std::vector<std::byte> object;
  std::string entry = {};  // what the kernel is called in the image
};

struct CompilerAnswer {
  // Of the fragment. A failure that the compiler reports begins with the place: "kmeans.mlir:3:10:
  // 'linalg.generic' op ...".
  StatusOr<Compiled> result;
  // Whether the same request will have the same answer: not where a limit or a defect was met.
  bool is_lasting = false;
};

// `name`: that of the fragment. kDataLoss: these bytes are no answer, cut off, or not of this
// version. They may come from anywhere.
StatusOr<CompilerAnswer> DecodeAnswer(absl::Span<const std::byte> bytes, const std::string& name);

}  // namespace lockstep::fragment
