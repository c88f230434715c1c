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

// Sums go to all ("allreduce") or are dealt out ("reduce-scatter"); or elements come from rank 0
// ("broadcast"), from all ("allgather"), or from each for each ("alltoall"). Of "f32", "bf16",
// "i8". False: there is nothing of that name.
bool ParseOperation(std::string_view kind, std::string_view element, Operation* operation);

}  // namespace lockstep::bench
