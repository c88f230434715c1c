// The collectives that are timed, what they work on, and how both are called on a command line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep::bench {

enum class Kind { kAllReduce, kReduceScatter, kBroadcast, kAllGather, kAllToAll };
enum class Element { kFloat32, kBFloat16, kInt8 };

struct Operation {
  Kind kind = Kind::kAllReduce;
  Element element = Element::kFloat32;
};

inline size_t SizeBytes(Element element) {
  return element == Element::kFloat32 ? 4 : element == Element::kBFloat16 ? 2 : 1;
}

// A small number as an element, in the low bits.
uint32_t BitsOf(Element element, int value);

// `kind`: "allreduce" (a sum), "reduce-scatter" (the same), "broadcast" (from rank 0), "allgather"
// or "alltoall". `element`: "f32", "bf16" or "i8". False: there is nothing of that name.
bool ParseOperation(std::string_view kind, std::string_view element, Operation* operation);

}  // namespace lockstep::bench
