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

// 128 bits of BLAKE2b. Unlike the keys of plans (runtime/plan/plan_key.h) it decides alone: an
// object does not say what it was compiled from. Whoever sends fragments must not find two of one
// key, so the hash is one that withstands that.
struct ObjectKey {
  uint64_t high = 0;
  uint64_t low = 0;

  // 32 hexadecimal digits: a file's name.
  std::string ToString() const;
  bool operator==(const ObjectKey&) const = default;
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
// Of the fragment alone: what a session names it by.
ObjectKey KeyOf(const Fragment& fragment);

}  // namespace lockstep::fragment
