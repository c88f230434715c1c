// SharedTensor: a tensor that the client uses where worker-0 has it.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/types/span.h"
#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/shape.h"
#include "runtime/base/shared_segment.h"
#include "runtime/base/status.h"
#include "runtime/client/dref.h"

namespace lockstep {

namespace client {
class HostTensors;
}

// Where this process maps worker-0's memory, the elements are that of a register, which worker-0
// has lent: to hand them over, or to take them from it, copies nothing. Elsewhere, and where
// worker-0 works on a GPU, the elements are in memory of this process, and copied when they are
// handed over.
//
// Ownership: the memory is this object's until it is destroyed or handed over; it may outlive its
// session, and worker-0's process, and keeps its elements. What is lent counts among the bytes that
// the session holds; when its session is closed before it goes, worker-0 keeps the memory until
// this process has ended.
//
// Threads: as a std::vector.
class SharedTensor {
 public:
  SharedTensor() = default;
  SharedTensor(SharedTensor&& other) noexcept { *this = std::move(other); }
  SharedTensor& operator=(SharedTensor&& other) noexcept {
    if (this == &other) return *this;
    dtype_ = other.dtype_;
    shape_ = std::move(other.shape_);
    data_ = std::exchange(other.data_, nullptr);
    ref_ = std::move(other.ref_);
    loan_ = std::move(other.loan_);
    segment_ = std::move(other.segment_);
    owned_ = std::move(other.owned_);
    lender_ = other.lender_;
    generation_ = other.generation_;
    return *this;
  }

  // True for one that was default-constructed, moved from, or handed over.
  bool IsNull() const { return data_ == nullptr; }
  // Whether the elements are in worker-0's memory.
  bool is_lent() const { return segment_ != nullptr; }

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  // 0 if this IsNull().
  size_t count() const { return IsNull() ? 0 : static_cast<size_t>(shape_.NumElements()); }
  size_t size_bytes() const { return count() * SizeOf(dtype_); }
  // The elements, row by row; not null, unless this IsNull(). Aligned to 64 bytes in what
  // Session::MakeHostTensor() has made; what was taken from worker-0 may begin within another
  // tensor, and is aligned to its elements.
  void* data() const { return data_; }
  Buffer buffer() const { return {data_, count(), dtype_}; }
  // The elements, if dtype is T's, and this is not null.
  template <typename T>
  StatusOr<absl::Span<T>> Elements() const {
    if (IsNull()) return InvalidArgument(kIsNull);
    if (DTypeOf<T>::value != dtype_) {
      return InvalidArgument("the tensor holds ", dtype_, ", not ", DTypeOf<T>::value);
    }
    return absl::MakeSpan(static_cast<T*>(data_), count());
  }

 private:
  friend class client::HostTensors;
  static constexpr std::string_view kIsNull =
      "this host tensor holds nothing: it was handed over, or never made";
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  // Tells one worker-0 from another: see SessionCore::WorkerZero.
  struct Lender {
    uint64_t first_command = 0;
    int pid = 0;
    bool operator==(const Lender&) const = default;
  };

  DType dtype_ = DType::kUInt8;
  Shape shape_;
  void* data_ = nullptr;
  // Of what is lent: the register, the loan's name if it has one of its own, what keeps the
  // mapping, who lent it, and when. A loan without a name is of a register that nothing else names.
  DRef ref_;
  DRef loan_;
  std::shared_ptr<const SharedSegment> segment_;
  Lender lender_;
  Generation generation_;                   // of the session, when it was lent
  std::unique_ptr<std::byte, Free> owned_;  // of what is not lent
};

}  // namespace lockstep
