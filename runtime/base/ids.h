// Strong integer types, so that a rank is never passed where a register id is meant.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>

namespace lockstep {

// An integer of type `T` that only converts explicitly. `Tag` makes each instantiation its own
// type.
template <typename Tag, typename T>
struct StrongId {
  using Underlying = T;

  constexpr StrongId() = default;
  constexpr explicit StrongId(T v) : value(v) {}

  constexpr auto operator<=>(const StrongId&) const = default;
  friend std::ostream& operator<<(std::ostream& out, StrongId id) { return out << +id.value; }

  T value = 0;
};

// A session, unique for the lifetime of a controller; 0 is no session (the cluster itself).
using SessionId = StrongId<struct SessionIdTag, uint32_t>;
// The incarnation of the cluster's membership; it grows when ranks are replaced.
using Epoch = StrongId<struct EpochTag, uint64_t>;
// How often a session was reset. Work of an older generation is skipped.
using Generation = StrongId<struct GenerationTag, uint32_t>;
// A client's request that wants an answer, unique within its session; 0 asks for none.
using RequestId = StrongId<struct RequestIdTag, uint64_t>;

// A worker's place, 0 .. size-1, in the world or (where said) in a group. Plain int, because ranks
// index arrays and are computed with everywhere.
using Rank = int;

// Names one register of one session on every worker. `index` is chosen by the client from its free
// list; `generation` counts the reuses of that index, so that a stale name is an error and never
// another register's data. Index 0 with generation 0 names nothing.
struct RegisterId {
  uint32_t index = 0;
  uint32_t generation = 0;

  constexpr bool IsNone() const { return generation == 0; }
  constexpr uint64_t Packed() const { return uint64_t{generation} << 32 | index; }
  static constexpr RegisterId FromPacked(uint64_t packed) {
    return {static_cast<uint32_t>(packed), static_cast<uint32_t>(packed >> 32)};
  }
  constexpr auto operator<=>(const RegisterId&) const = default;
  friend std::ostream& operator<<(std::ostream& out, RegisterId id) {
    return out << 'r' << id.index << '.' << id.generation;
  }
};

}  // namespace lockstep

template <typename Tag, typename T>
struct std::hash<lockstep::StrongId<Tag, T>> {
  size_t operator()(lockstep::StrongId<Tag, T> id) const { return std::hash<T>()(id.value); }
};
