// Placement: what one axis of a mesh does with a tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/reduction.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"

namespace lockstep::plan {

// How much of a dimension each coordinate of an axis has, where data does not divide evenly.
// Immutable; what it was made of may be nonsense until Layout::Make() has accepted it.
class GivenExtents {
 public:
  explicit GivenExtents(std::vector<int64_t> counts);

  absl::Span<const int64_t> counts() const { return counts_; }
  Part At(int coordinate) const {
    const auto i = static_cast<size_t>(coordinate);
    return {begins_[i], counts_[i]};
  }
  size_t HeldBytes() const { return sizeof *this + 2 * counts_.size() * sizeof(int64_t); }
  bool operator==(const GivenExtents&) const = default;

 private:
  std::vector<int64_t> counts_;
  std::vector<int64_t> begins_;  // their sums; modulo 2^64, which matters to nonsense alone
};

// What one axis of a mesh does with a tensor. Cheap to copy: copies share their extents.
struct Placement {
  enum class Kind : uint8_t {
    kReplicate,  // each coordinate has all of it
    kShard,      // dimension `dim` is dealt out to the coordinates
    kPartial,    // each coordinate has a tensor of full extents; combined by `op` they are it
  };
  Kind kind = Kind::kReplicate;
  int dim = 0;                     // of kShard
  Reduction op = Reduction::kSum;  // of kPartial
  // Of kShard: what each coordinate has. Null: as even as possible.
  std::shared_ptr<const GivenExtents> extents = nullptr;

  static Placement Replicate() { return {}; }
  static Placement Shard(int dim) { return {Kind::kShard, dim, Reduction::kSum}; }
  // Coordinate i has extents[i] of the dimension, after those of the coordinates before it.
  static Placement Shard(int dim, std::vector<int64_t> extents);
  static Placement Partial(Reduction op) { return {Kind::kPartial, 0, op}; }

  bool is_replicate() const { return kind == Kind::kReplicate; }
  bool is_shard() const { return kind == Kind::kShard; }
  bool Shards(int d) const { return is_shard() && dim == d; }
  bool is_partial() const { return kind == Kind::kPartial; }
  // Given extents that happen to be even differ from even ones.
  bool operator==(const Placement& other) const;

  // Of kShard: the part of `count` that a coordinate of an axis of `size` has.
  Part PartOf(int64_t count, int size, int coordinate) const {
    return extents == nullptr ? EvenPart(count, size, coordinate) : extents->At(coordinate);
  }

  // "replicate", "shard(0)", "shard(0: 3, 0, 5)", "partial(sum)"
  std::string ToString() const;
};

// Reads what ToString() writes, and the short forms "R", "S(0)", "S(0: 3, 0, 5)" and "P(sum)".
StatusOr<Placement> ParsePlacement(std::string_view text);

}  // namespace lockstep::plan
