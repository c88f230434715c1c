#include "services/controller/common/batch_order.h"

#include "runtime/control/batch.h"
#include "runtime/control/message_codec.h"
#include "schemas/control.capnp.h"

namespace lockstep::controller {
namespace {

// The names of a million registers: a client gives names back whether it has room or not.
constexpr uint64_t kNamesBytes = uint64_t{8} << 20;

uint64_t Nanos(std::chrono::nanoseconds duration) {
  return static_cast<uint64_t>(std::max<int64_t>(duration.count(), 0));
}

}  // namespace

Status CommandStream::Admit(const FlowLimits& limits, uint64_t first, uint32_t count,
                            uint64_t cost) {
  if (first != next_command_) {
    return MakeStatus(StatusCode::kDataLoss, "session ", session_, " sent a batch that begins with",
                      " command ", first, " where command ", next_command_,
                      " was expected: what is between was lost. A batch larger than max_batch_bytes"
                      " (",
                      limits.max_batch_bytes,
                      ") is dropped on its way, and so is what a broken connection had under way: "
                      "a reset makes the session usable without those commands");
  }
  // What a client of ours can have under way at most: it sends as long as the window is not full,
  // perhaps one batch to make room for a large command, and that command.
  const uint64_t limit =
      limits.window_bytes + 2 * control::FlowCost(limits.max_batch_bytes) + kNamesBytes;
  if (UnderWay() + cost > limit) {
    return ResourceExhausted("session ", session_, " has ", UnderWay() + cost,
                             " bytes under way, more than any client may have that keeps to its"
                             " window of ",
                             limits.window_bytes, " bytes and waits for credit");
  }
  next_command_ += count;
  sent_bytes_ += cost;
  return OkStatus();
}

bool CommandStream::Reset(uint64_t next_command, uint64_t client_bytes) {
  const bool skips = next_command > next_command_;
  if (skips) {
    next_command_ = next_command;
    lost_bytes_ = client_bytes - std::min(sent_bytes_, client_bytes);
  }
  reset_at_ = next_command_;
  return skips;
}

bool CommandStream::Consume(Rank rank, uint64_t bytes) {
  uint64_t& consumed = consumed_[static_cast<size_t>(rank)];
  if (consumed == kConsumesNothing) return false;
  const uint64_t before = SlowestConsumed();
  consumed = bytes;
  return SlowestConsumed() != before;
}

uint64_t CommandStream::SlowestConsumed() const {
  return *std::min_element(consumed_.begin(), consumed_.end());
}

control::Frame BatchOrder::Place(const OrderedBatch& batch, Epoch world,
                                 Deadline::Clock::time_point now) {
  return control::EncodeMessage<wire::Envelope>([&](wire::Envelope::Builder e) {
    e.setEpoch(world.value);
    e.setSequence(++sequence_);
    e.setSession(batch.session.value);
    e.setGeneration(batch.generation.value);
    e.setFirstCommand(batch.first_command);
    e.setRequest(batch.request.value);
    e.setBatch();
    e.setClientNanos(Nanos(batch.in_client));
    if (batch.arrived.has_value()) e.setControllerNanos(Nanos(now - *batch.arrived));
    e.setSentNanos(Nanos(now.time_since_epoch()));
  });
}

}  // namespace lockstep::controller
