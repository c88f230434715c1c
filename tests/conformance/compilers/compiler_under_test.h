// A compiler of fragments, as the suite knows it: a program, and how samples are written in its
// language. Each compiler has a file that defines TheCompiler(), and a test made of that and the
// suite.
#pragma once

#include <cstdint>

#include "runtime/fragment/compiler_program.h"
#include "runtime/fragment/fragment.h"

namespace lockstep::fragment {

// Of type f(int64, float64[?]) -> (float64[?]), with a result as long as the argument.
enum class Sample {
  kDouble,          // twice each element
  kDivideByZero,    // an integer by 0, if all elements are 0
  kNeverEnds,       // ... and is not known to
  kWantsMemory,     // 4 bytes or more, of the caller's, for 4 elements
  kDoesNotCompile,  // says something wrong, in a line of its own
};

struct SampleSource {
  Fragment fragment;
  int64_t first = 0;  // what its first argument is to be
};

struct CompilerUnderTest {
  CompilerOptions program;
  SampleSource (*source)(Sample sample);
};

CompilerUnderTest TheCompiler();

}  // namespace lockstep::fragment
