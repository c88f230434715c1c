#include "tools/bench/collectives/operation.h"

#include <bit>
#include <utility>

namespace lockstep::bench {
namespace {

template <typename T, size_t N>
bool Find(const std::pair<std::string_view, T> (&names)[N], std::string_view name, T* found) {
  for (const auto& [known, value] : names) {
    if (known != name) continue;
    *found = value;
    return true;
  }
  return false;
}

constexpr std::pair<std::string_view, Kind> kKinds[] = {
    {"allreduce", Kind::kAllReduce}, {"reduce-scatter", Kind::kReduceScatter},
    {"broadcast", Kind::kBroadcast}, {"allgather", Kind::kAllGather},
    {"alltoall", Kind::kAllToAll},
};
constexpr std::pair<std::string_view, Element> kElements[] = {
    {"f32", Element::kFloat32}, {"bf16", Element::kBFloat16}, {"i8", Element::kInt8}};

}  // namespace

uint32_t BitsOf(Element element, int value) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  switch (element) {
    case Element::kFloat32:
      return bits;
    case Element::kBFloat16:
      return bits >> 16;
    case Element::kInt8:
      return static_cast<uint8_t>(value);
  }
  return 0;
}

bool ParseOperation(std::string_view kind, std::string_view element, Operation* operation) {
  return Find(kKinds, kind, &operation->kind) && Find(kElements, element, &operation->element);
}

}  // namespace lockstep::bench
