#include "runtime/collective/two_level/stage_runner.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>

#include "runtime/base/bulk_memory.h"
#include "runtime/collective/checks.h"

namespace lockstep::collective::two_level {
namespace {

// What a stage takes longer than the one before, to hear what went wrong in it.
constexpr std::chrono::milliseconds kToHear{150};
// Descriptions and failures as ranks tell them to each other.
constexpr size_t kTextBytes = 1024;

Deadline Later(Deadline deadline) {
  constexpr auto kForever = Deadline::Clock::time_point::max();
  return kForever - deadline.when() < kToHear ? deadline : Deadline::At(deadline.when() + kToHear);
}

// Every rank's `own`, by rank.
StatusOr<std::vector<uint64_t>> Share(Communicator& node, uint64_t own, Deadline deadline) {
  const auto size = static_cast<size_t>(node.size());
  std::vector<uint64_t> all(size);
  const std::vector<int64_t> counts(size, 1);
  LOCKSTEP_RETURN_IF_ERROR(
      node.AllGather(ViewOf(&own, 1), ViewOf(all.data(), size), counts, deadline));
  return all;
}

StatusOr<std::vector<std::string>> ShareTexts(Communicator& node, std::string_view own,
                                              Deadline deadline) {
  const auto size = static_cast<size_t>(node.size());
  uint8_t mine[kTextBytes] = {};
  std::memcpy(mine, own.data(), std::min(own.size(), kTextBytes - 1));
  std::vector<uint8_t> all(size * kTextBytes);
  const std::vector<int64_t> counts(size, kTextBytes);
  LOCKSTEP_RETURN_IF_ERROR(
      node.AllGather(ViewOf(mine, kTextBytes), ViewOf(all.data(), all.size()), counts, deadline));
  std::vector<std::string> texts;
  for (size_t i = 0; i < size; ++i) {
    texts.emplace_back(reinterpret_cast<const char*>(all.data()) + i * kTextBytes);
  }
  return texts;
}

// One rail's ranks, by node.
std::vector<Rank> RanksOnRail(const Layout& layout) {
  std::vector<Rank> ranks;
  for (const auto& node : layout.nodes()) {
    ranks.push_back(node[static_cast<size_t>(layout.local())]);
  }
  return ranks;
}

}  // namespace

StageRunner::StageRunner(Layout layout, std::unique_ptr<Communicator> node,
                         std::unique_ptr<message::MessageCommunicator> network)
    : layout_(std::move(layout)),
      node_(std::move(node)),
      network_(std::move(network)),
      rail_(layout_.has_rail() ? network_->Among(RanksOnRail(layout_)) : nullptr) {}

Status StageRunner::Fail(const Status& failure) {
  if (failure_.ok()) {
    failure_ = failure;
    network_->Leave(failure);
    if (node_ != nullptr) node_->Leave(failure);
  }
  return failure_;
}

void StageRunner::Abort(const Status& cause) {
  if (node_ != nullptr) node_->Abort(cause);
  network_->Abort(cause);  // and with it the rail
}

StatusOr<Stages> StageRunner::Begin(const Call& call, uint64_t count, Counts counts,
                                    Deadline deadline) {
  Stages stages{deadline, Later(deadline), Later(Later(deadline))};
  Call described = call;
  if (!AreEven(counts)) described.uneven = 1;
  what_ = whole_.empty() ? Describe(described, count, counts, members()[call.root]) : whole_;
  if (rail_ != nullptr) rail_->ReportAs(what_);
  if (node_ == nullptr) return stages;
  node_->ReportAs(what_);
  const StatusOr<std::vector<uint64_t>> hashes =
      Share(*node_, MixText(what_.size(), what_), stages.inside);
  if (!hashes.ok()) return Fail(hashes.status());
  const bool agree = std::all_of(hashes->begin(), hashes->end(),
                                 [&](uint64_t hash) { return hash == hashes->front(); });
  if (agree) return stages;
  const StatusOr<std::vector<std::string>> texts = ShareTexts(*node_, what_, stages.inside);
  if (!texts.ok()) return Fail(texts.status());
  return Fail(InvalidArgument(DescribeDisagreement(*texts, node_->members())));
}

Status StageRunner::EndCrossing(const Status& crossed, const Stages& stages) {
  if (node_ == nullptr) return Inside(crossed);
  const auto code = static_cast<uint64_t>(crossed.code());
  const StatusOr<std::vector<uint64_t>> codes = Share(*node_, code, stages.after);
  if (!codes.ok()) return Fail(codes.status());
  const auto ok = static_cast<uint64_t>(StatusCode::kOk);
  const auto failed =
      std::find_if(codes->begin(), codes->end(), [&](uint64_t one) { return one != ok; });
  if (failed == codes->end()) return OkStatus();
  const StatusOr<std::vector<std::string>> texts =
      ShareTexts(*node_, Message(crossed), stages.after);
  if (!texts.ok()) return Fail(texts.status());
  return Fail(Status(static_cast<StatusCode>(*failed),
                     (*texts)[static_cast<size_t>(failed - codes->begin())]));
}

StatusOr<Buffer> StageRunner::Scratch(Area area, size_t count, DType dtype) {
  const StatusOr<std::byte*> memory = scratch_[area].AtLeast(count * SizeOf(dtype));
  if (memory.ok()) return Buffer{*memory, count, dtype};
  const Rank self = members()[static_cast<size_t>(rank())];
  return Fail(Annotate(memory.status(), "rank " + std::to_string(self) + " in " + what_));
}

Status StageRunner::HandOut(ConstBuffer mine, const RailPacking& packing, Buffer recv,
                            Deadline deadline) {
  ConstBuffer segment = mine;
  if (node_ != nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(const Buffer whole,
                              Scratch(kSegment, packing.segment_count(), recv.dtype));
    LOCKSTEP_RETURN_IF_ERROR(
        Inside(node_->AllGather(mine, whole, layout_.LocalCountsOf(packing.slices()), deadline)));
    segment = whole;
  }
  const std::vector<int64_t> own = packing.own_counts();
  const ConstBuffer part =
      PartOf(segment, {static_cast<size_t>(OffsetOf(own, layout_.local())), recv.count});
  if (recv.data != part.data && recv.count > 0) {
    FastCopy(recv.data, part.data, recv.size_bytes());
  }
  return OkStatus();
}

}  // namespace lockstep::collective::two_level
