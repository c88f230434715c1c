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

#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

namespace lockstep::fragment {

// Bounds that are checked before anything is parsed.
inline constexpr size_t kMaxFragmentBytes = 4 << 20;
inline constexpr int kMaxNesting = 200;  // brackets inside of one another
// Of tensors.
inline constexpr int kMaxRank = 16;
inline constexpr int64_t kUnknownExtent = -1;

// A processor as LLVM names it, and its features ("+avx2,-avx512f").
struct Target {
  std::string processor;
  std::string features;
};

struct Type {
  DType dtype = DType::kFloat64;
  std::vector<int64_t> shape;  // kUnknownExtent: known when it runs
  bool scalar = false;         // f64, and not tensor<f64>
};

// The fields of schemas/fragment.capnp, where each is explained.
struct Request {
  std::string_view fragment;
  std::string name = "fragment";
  bool wants_object = true;
  std::vector<Type> argument_types;
  int64_t blas_threshold = 32768;
  uint64_t max_object_bytes = 64 << 20;
};

struct Argument {
  Type type;
  bool uses_offset = false;
  bool uses_global_shape = false;
};

struct Result {
  Type type;
  bool sizes_known = true;
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
  std::string function;
  std::vector<Argument> arguments;
  std::vector<Result> results;
  std::string object;
};

// The version of this compiler and of LLVM: "lockstep-compiler 1, LLVM 19.1.7".
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

}  // namespace lockstep::fragment
