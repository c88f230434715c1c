#include "runtime/plan/steps/together.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lockstep::plan {
namespace {

using Counts = std::vector<int64_t>;

// How what is sent, or received, is made of parts: one for each member, or one for all.
Counts PartsSent(const CollectiveStep& step) {
  const bool is_dealt_out =
      step.kind == OperationKind::kReduceScatter || step.kind == OperationKind::kAllToAll;
  return is_dealt_out ? step.counts : Counts{step.send.count};
}
Counts PartsReceived(const CollectiveStep& step) {
  if (step.kind == OperationKind::kAllToAll) return step.recv_counts;
  return step.kind == OperationKind::kAllGather ? step.counts : Counts{step.recv.count};
}

// What is packed for one of the collectives: part i of `own` in what all of them have of part i.
struct Packing {
  Span own;
  Counts parts;
  Counts offsets;  // of the parts, where all is packed
};

std::vector<Packing> PackingsOf(const std::vector<CollectiveStep>& collectives,
                                Span CollectiveStep::*end,
                                Counts (*parts_of)(const CollectiveStep&)) {
  std::vector<Packing> packings;
  for (const CollectiveStep& one : collectives) {
    packings.push_back({one.*end, parts_of(one), {}});
  }
  int64_t offset = 0;
  for (size_t i = 0; i < packings.front().parts.size(); ++i) {
    for (Packing& packing : packings) {
      packing.offsets.push_back(offset);
      offset += packing.parts[i];
    }
  }
  return packings;
}

// Copies between where its parts lie one after the other, and where they are packed: rows at one
// distance are one copy.
std::vector<CopyStep> CopiesOf(const Packing& packing, int packed, bool packs) {
  std::vector<CopyStep> copies;
  int64_t own = packing.own.offset;
  for (size_t i = 0; i < packing.parts.size();) {
    const int64_t count = packing.parts[i];
    size_t end = i + 1;
    const int64_t pitch =
        end < packing.parts.size() ? packing.offsets[end] - packing.offsets[i] : count;
    while (end < packing.parts.size() && packing.parts[end] == count &&
           packing.offsets[end] - packing.offsets[end - 1] == pitch) {
      ++end;
    }
    const auto rows = static_cast<int64_t>(end - i);
    if (count > 0) {
      CopyStep copy{packing.own.buffer,
                    packed,
                    {own, Shape({count, 1})},
                    {packing.offsets[i], Shape({pitch, 1})},
                    Shape({rows, count}),
                    0,
                    rows * count};
      if (!packs) {
        std::swap(copy.from_buffer, copy.to_buffer);
        std::swap(copy.from, copy.to);
      }
      copies.push_back(std::move(copy));
    }
    own += rows * count;
    i = end;
  }
  return copies;
}

void Add(const Counts& more, Counts* to) {
  to->resize(std::max(to->size(), more.size()), 0);
  for (size_t i = 0; i < more.size(); ++i) (*to)[i] += more[i];
}

}  // namespace

Together DoTogether(const std::vector<CollectiveStep>& collectives,
                    absl::FunctionRef<int(int64_t)> new_buffer) {
  Together all;
  all.step = collectives.front();
  all.step.counts.clear();
  all.step.recv_counts.clear();
  int64_t sent = 0;
  int64_t received = 0;
  for (const CollectiveStep& one : collectives) {
    sent += one.send.count;
    received += one.recv.count;
    Add(one.counts, &all.step.counts);
    Add(one.recv_counts, &all.step.recv_counts);
  }
  const int packed = new_buffer(sent);
  const bool is_in_place = all.step.kind == OperationKind::kAllReduce;
  const int unpacked = is_in_place ? packed : new_buffer(received);
  all.step.send = {packed, 0, sent};
  all.step.recv = {unpacked, 0, received};
  for (const Packing& one : PackingsOf(collectives, &CollectiveStep::send, PartsSent)) {
    all.before.push_back(CopiesOf(one, packed, true));
  }
  for (const Packing& one : PackingsOf(collectives, &CollectiveStep::recv, PartsReceived)) {
    all.after.push_back(CopiesOf(one, unpacked, false));
  }
  return all;
}

}  // namespace lockstep::plan
