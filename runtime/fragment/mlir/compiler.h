// Compiles a fragment: from MLIR to a shared object that a worker can load.
//
//     Request request;
//     request.fragment = "func.func @twice(%x: tensor<?xf64>) -> tensor<?xf64> { ... }";
//     const Answer answer = Compile(request, HostTarget());
//     if (answer.failure) std::cerr << answer.failure->message;
//
// The only header of this folder that the rest of the project includes: it names nothing of MLIR or
// LLVM. Their libraries assert and abort where they meet what they did not expect, so this belongs
// into a process of its own (services/compiler), never into a worker.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/fragment/signature.h"

namespace lockstep::fragment {

// Bounds, beside Fragment::kMaxSourceBytes.
inline constexpr int kMaxNesting = 200;  // brackets inside of one another
inline constexpr int kMaxRank = 16;      // of tensors

// A processor as LLVM names it, and its features ("+avx2,-avx512f").
struct Target {
  std::string processor;
  std::string features;
};

// The fields of schemas/fragment.capnp, where each is explained.
struct Request {
  std::string_view fragment;
  std::string name = "fragment";
  bool wants_object = true;
  std::vector<TensorType> argument_types;
  int64_t blas_threshold = 32768;
  uint64_t max_object_bytes = 64 << 20;
};

struct Failure {
  StatusCode code = StatusCode::kInternal;
  std::string message;
  uint32_t line = 0;  // from 1; 0: unknown
  uint32_t column = 0;
  std::string operation = {};  // "linalg.generic"; may be empty
};

struct Answer {
  std::optional<Failure> failure;  // and then nothing else
  Signature signature;
  std::string object;
};

// Which build of this compiler it is, and the version of LLVM: "lockstep-compiler 90bb379668...,
// LLVM 19.1.7". Part of the key of what it compiles.
std::string CompilerVersion();

// This machine's processor. Reads files of the system on some processors, so it comes before a
// sandbox.
Target HostTarget();

// What `processor` has, with `features` over it. kInvalidArgument: LLVM knows no such processor, or
// no such feature.
StatusOr<Target> FindTarget(const std::string& processor, const std::string& features);

// Opens what linking needs, which a sandbox would forbid later. kUnavailable: this system's libm is
// not to be found.
Status PrepareLinking();

// Does what is asked for. After PrepareLinking() it starts no threads and opens no files but
// "/proc/self/fd/N", where N is open already. One call at a time in a process: the linker keeps
// global state, and uses standard output.
Answer Compile(const Request& request, const Target& target);

// What Compile() is about, or was last: "parsing". For a message about a crash: async-signal-safe.
const char* CurrentStage();

}  // namespace lockstep::fragment
