// KernelSignature: what a kernel of CUDA C++ takes and gives. C++ does not tell, so the source says
// it in a comment:
//
//     // lockstep: scale(x: float64[n, 4], by: float64) -> (y: float64[n, 4])
//     __global__ void scale(const double* x, double by, double* y, int64_t n) { ... }
//
// The comment may go on in the next lines, each of which begins with //, until its brackets are
// closed. What it says:
//
//     kernel "(" name ":" type, ... ")" "->" "(" name ":" type, ... ")" ["over" size "*" ...]
//     type = dtype ["[" size ["from" name] ["of" name], ... "]"]          size = name | integer
//
// A name in brackets is an extent that is known when the kernel runs: of an argument's dimension
// (`n`), or the whole tensor's (`of`), or where the argument's part begins in that (`from`). What
// has the same name is the same number. A result's extent may also be an argument that is an
// integer; a name that only results have is told by the caller. The kernel is run by a thread for
// each element of the first result, or for as many as `over` multiplies.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/fragment/signature.h"

namespace lockstep::fragment {

struct KernelSignature {
  // A number that has a name.
  struct Number {
    std::string name;
    bool is_argument = false;  // and passed as one
  };
  // Stated, or a number.
  struct Extent {
    int64_t stated = 0;
    int number = -1;  // its index; -1: it is stated
  };
  // Of an argument; -1: not asked for.
  struct Dimension {
    Extent extent;
    int offset = -1;
    int whole = -1;
  };
  struct Argument {
    std::string name;
    std::vector<Dimension> dimensions = {};
    int number = -1;  // that it is, where extents may be made of it
  };
  struct Result {
    std::string name;
    std::vector<Extent> extents = {};
  };
  // As C++ declares it: {"const double*", "x"}.
  struct Parameter {
    std::string type;
    std::string name;
  };

  Signature signature;
  std::vector<Number> numbers;  // as they come in the text
  std::vector<Argument> arguments;
  std::vector<Result> results;
  std::vector<Extent> threads;  // empty: as many as the first result has elements
  // Where the source says it.
  uint32_t line = 0;
  uint32_t column = 0;

  // What the kernel has to take, in this order: tensors (`const T*`) and scalars as the arguments
  // come, results (`T*`), and int64_t for each number that is not passed already.
  std::vector<Parameter> Parameters() const;
};

// What is wrong, and where, from 1; columns are bytes.
struct SourceError {
  uint32_t line = 0;
  uint32_t column = 0;
  std::string message;
};

// That of `kernel`; the source may have others. Threads: any. Reads no more than the comments.
std::variant<KernelSignature, SourceError> ParseKernelSignature(std::string_view source,
                                                                std::string_view kernel);

}  // namespace lockstep::fragment
