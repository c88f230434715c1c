// The key of compiled code: what it depends on, as one number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/fragment/fragment.h"
#include "runtime/fragment/signature.h"

namespace lockstep::fragment {

// Which compiler it is, and what it compiles for on this machine.
struct CompilerIdentity {
  std::string compiler;   // its own version and that of what it is made of
  std::string processor;  // "skylake-avx512"
  std::string features;   // "+avx2,-avx512f"
  bool operator==(const CompilerIdentity&) const = default;
};

// What is compiled. `types`: those of the arguments, open where workers differ (PlacedCall); empty:
// as the fragment says.
struct CompileWork {
  Fragment fragment;
  std::vector<TensorType> types = {};
  int64_t blas_threshold = 32'768;  // multiplications, from which on a BLAS multiplies matrices
};

// Of all of that, the ABI's version, and what the key itself is made of. The fragment's name does
// not count, which is for messages.
ObjectKey KeyOf(const CompileWork& work, const CompilerIdentity& compiler);

// By which workers find out whether they have compiled a fragment to the same signature. The same
// on all machines.
uint64_t DigestOf(const Signature& signature);

}  // namespace lockstep::fragment
