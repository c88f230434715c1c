#include "runtime/fragment/shares.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::fragment {
namespace {

// Where a part begins, and how large it is: numbers that can be compared.
void Append(const plan::Box& part, std::vector<int64_t>* numbers) {
  numbers->insert(numbers->end(), part.begin.dims().begin(), part.begin.dims().end());
  numbers->insert(numbers->end(), part.extents.dims().begin(), part.extents.dims().end());
}

}  // namespace

bool IsDealtOut(const plan::Layout& layout) {
  return std::any_of(layout.placements().begin(), layout.placements().end(),
                     [](const plan::Placement& placement) { return placement.is_shard(); });
}

bool IsDealtOutAlong(const plan::Layout& layout, int dimension) {
  return std::any_of(layout.placements().begin(), layout.placements().end(),
                     [&](const plan::Placement& placement) { return placement.Shards(dimension); });
}

bool IsPartial(const plan::Layout& layout) {
  return std::any_of(layout.placements().begin(), layout.placements().end(),
                     [](const plan::Placement& placement) { return placement.is_partial(); });
}

bool DiffersByWorker(const PlacedCall& call, int argument) {
  const std::optional<plan::Layout>& layout = call.ArgumentLayout(argument);
  return !layout.has_value() || IsDealtOut(*layout) || IsPartial(*layout);
}

std::optional<std::pair<int, int>> WorkersGivenTheSame(const PlacedCall& call) {
  std::vector<int> split;
  for (int argument = 0; argument < call.signature().num_arguments(); ++argument) {
    if (!DiffersByWorker(call, argument)) continue;
    const std::optional<plan::Layout>& layout = call.ArgumentLayout(argument);
    // Values that are a worker's own.
    if (!layout.has_value() || IsPartial(*layout)) return std::nullopt;
    split.push_back(argument);
  }
  std::vector<std::pair<std::vector<int64_t>, int>> given;
  for (int index = 0; index < call.workers().size(); ++index) {
    if (!call.Calls(index)) continue;
    given.emplace_back(std::vector<int64_t>(), index);
    for (const int argument : split) Append(call.PartAt(argument, index), &given.back().first);
  }
  std::sort(given.begin(), given.end());
  for (size_t i = 1; i < given.size(); ++i) {
    if (given[i].first == given[i - 1].first) {
      return std::make_pair(given[i - 1].second, given[i].second);
    }
  }
  return std::nullopt;
}

std::optional<int> ArgumentOutOfOrder(const PlacedCall& call) {
  for (int argument = 0; argument < call.signature().num_arguments(); ++argument) {
    const Split split = call.inputs()[static_cast<size_t>(argument)].split;
    if (split != Split::kAsPlaced || !call.ArgumentLayout(argument).has_value()) continue;
    std::vector<int64_t> before;
    for (int index = 0; index < call.workers().size(); ++index) {
      const plan::Box part = call.PartAt(argument, index);
      if (!call.Calls(index) || part.extents.NumElements() == 0) continue;
      std::vector<int64_t> begin(part.begin.dims().begin(), part.begin.dims().end());
      if (begin < before) return argument;
      before = std::move(begin);
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::fragment
