// The numbers of one call of a kernel: what the names in its signature stand for there, and what
// follows from them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/fragment/abi.h"
#include "runtime/fragment/kernel_signature.h"

namespace lockstep::fragment {

class KernelNumbers {
 public:
  // From what the kernel is given: sizes, offsets, global sizes, and the data of scalars are read
  // (see abi.h). kInvalidArgument: a name stands for two numbers, an extent is negative.
  // `signature` is borrowed.
  static StatusOr<KernelNumbers> Of(const KernelSignature& signature,
                                    absl::Span<const LockstepFragmentTensor> arguments);

  // Those that only results tell. kInvalidArgument as above.
  Status Learn(absl::Span<const LockstepFragmentTensor> results);

  // The extents of a result; kOpen: not known yet. kInvalidArgument: a negative one.
  StatusOr<std::vector<int64_t>> ResultExtents(int result) const;
  // By number; none: not known yet.
  const std::vector<std::optional<int64_t>>& values() const { return values_; }
  // How many threads it is run by at least. All numbers are known. kInvalidArgument: too many, or
  // a negative number.
  StatusOr<uint64_t> Threads() const;

 private:
  explicit KernelNumbers(const KernelSignature& signature)
      : signature_(signature), values_(signature.numbers.size()) {}
  Status Set(int number, int64_t value, const std::string& what);
  std::optional<int64_t> ValueOf(const KernelSignature::Extent& extent) const {
    return extent.number < 0 ? extent.stated : values_[static_cast<size_t>(extent.number)];
  }

  const KernelSignature& signature_;
  std::vector<std::optional<int64_t>> values_;
};

}  // namespace lockstep::fragment
