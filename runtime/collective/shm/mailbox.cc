#include "runtime/collective/shm/mailbox.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/bulk_memory.h"

namespace lockstep::collective::shm {
namespace {

// Pieces that a message from outside the arena is posted in.
constexpr size_t kPieceBytes = size_t{1} << 20;

size_t PieceLength(BufferLocation place, size_t count, DType dtype) {
  return place == BufferLocation::kStaged ? kPieceBytes / SizeOf(dtype) : count;
}

Status Mismatch(Rank from, uint64_t sent, DType sent_dtype, Rank to, uint64_t expected,
                DType expected_dtype) {
  return InvalidArgument("rank ", from, " sends ", sent, ' ', sent_dtype, " to rank ", to,
                         ", which expects ", expected, ' ', expected_dtype);
}

}  // namespace

class Mailbox::Outgoing {
 public:
  Outgoing(Mailbox& mailbox, ConstBuffer send, int to)
      : team_(mailbox.team_),
        posted_(mailbox.posted_[static_cast<size_t>(to)]),
        send_(send),
        to_(to),
        outbox_(team_.own().outbox(to)),
        inbox_(team_.block(to).inbox(team_.rank())) {}

  // Decides where the message is for the receiver.
  Status Begin() {
    if (send_.size_bytes() <= kInlineBytes) {
      place_ = BufferLocation::kInline;
    } else if (team_.arena().Contains(send_.data)) {
      place_ = BufferLocation::kArena;
    } else {
      place_ = BufferLocation::kStaged;
      StatusOr<std::shared_ptr<tensor::Storage>> stage =
          team_.arena().Allocate(std::min(send_.size_bytes(), kPieceBytes));
      if (!stage.ok()) return team_.Fail(stage.status());
      stage_ = *std::move(stage);
    }
    return OkStatus();
  }

  int peer() const { return to_; }
  bool done() const { return done_; }
  // Everything posted so far has been taken.
  bool CanStep() const { return inbox_.taken.load(std::memory_order_acquire) >= posted_; }

  Status Step() {
    if ((inbox_.taken.load(std::memory_order_acquire) & kRefused) != 0) return Refused();
    if (waits_for_receiver_ && next_ == send_.count) {
      done_ = true;
      return OkStatus();
    }
    Post();
    done_ = place_ == BufferLocation::kInline;
    waits_for_receiver_ = true;
    return OkStatus();
  }

 private:
  void Post() {
    const size_t count =
        std::min(PieceLength(place_, send_.count, send_.dtype), send_.count - next_);
    const size_t size_bytes = count * SizeOf(send_.dtype);
    const auto* from = static_cast<const std::byte*>(send_.data) + next_ * SizeOf(send_.dtype);
    if (place_ == BufferLocation::kInline) {
      if (size_bytes > 0) std::memcpy(outbox_.payload.bytes, from, size_bytes);
    } else if (place_ == BufferLocation::kArena) {
      outbox_.payload.at.send_offset = team_.arena().OffsetOf(from);
    } else {
      FastCopy(stage_->data(), from, size_bytes, Stores::kCached);
      outbox_.payload.at.send_offset = team_.arena().OffsetOf(stage_->data());
    }
    outbox_.call = Call{.dtype = send_.dtype, .send = place_};
    outbox_.count = send_.count;
    next_ += count;
    outbox_.seq.store(++posted_, std::memory_order_release);
    team_.Notify(to_);
  }

  Status Refused() {
    return team_.Fail(Mismatch(team_.WorldRank(team_.rank()), outbox_.count, outbox_.call.dtype,
                               team_.WorldRank(to_), inbox_.count, inbox_.call.dtype));
  }

  Team& team_;
  uint64_t& posted_;
  const ConstBuffer send_;
  const int to_;
  Outbox& outbox_;
  const Inbox& inbox_;
  BufferLocation place_ = BufferLocation::kNone;
  std::shared_ptr<tensor::Storage> stage_;
  size_t next_ = 0;  // the first element not yet posted
  bool waits_for_receiver_ = false;
  bool done_ = false;
};

class Mailbox::Incoming {
 public:
  Incoming(Mailbox& mailbox, Buffer recv, int from)
      : team_(mailbox.team_),
        received_(mailbox.received_[static_cast<size_t>(from)]),
        recv_(recv),
        from_(from),
        outbox_(team_.block(from).outbox(team_.rank())),
        inbox_(team_.own().inbox(from)) {}

  int peer() const { return from_; }
  bool done() const { return done_; }
  bool CanStep() const { return outbox_.seq.load(std::memory_order_acquire) > received_; }

  Status Step() {
    if (outbox_.call.dtype != recv_.dtype || outbox_.count != recv_.count) return Refuse();
    const BufferLocation place = outbox_.call.send;
    const size_t count =
        std::min(PieceLength(place, recv_.count, recv_.dtype), recv_.count - next_);
    const size_t size_bytes = count * SizeOf(recv_.dtype);
    auto* to = static_cast<std::byte*>(recv_.data) + next_ * SizeOf(recv_.dtype);
    ++received_;
    if (place == BufferLocation::kInline) {
      if (size_bytes > 0) std::memcpy(to, outbox_.payload.bytes, size_bytes);
    } else {
      // Sequentially consistent, as in Team::Leave(): either we see that the sender left, or it
      // waits.
      inbox_.reading.store(received_, std::memory_order_seq_cst);
      if (team_.HasLeft(from_)) return SenderLeft();
      FastCopy(to, team_.At(from_, outbox_.payload.at.send_offset), size_bytes,
               ExceedsCaches(2 * size_bytes) ? Stores::kStream : Stores::kCached);
      // It does not wait for long: it may have used the memory for something else meanwhile. The
      // fence: if we read that, we see that it left.
      std::atomic_thread_fence(std::memory_order_acquire);
      if (team_.HasLeft(from_)) return SenderLeft();
    }
    next_ += count;
    done_ = next_ == recv_.count;
    inbox_.taken.store(received_, std::memory_order_release);
    team_.Notify(from_);
    return OkStatus();
  }

 private:
  Status SenderLeft() {
    inbox_.taken.store(received_, std::memory_order_release);
    return team_.Fail(Unavailable("rank ", team_.WorldRank(from_), " gave up sending to rank ",
                                  team_.WorldRank(team_.rank())));
  }

  Status Refuse() {
    inbox_.call = Call{.dtype = recv_.dtype};
    inbox_.count = recv_.count;
    inbox_.taken.store((received_ + 1) | kRefused, std::memory_order_release);
    team_.Notify(from_);
    return team_.Fail(Mismatch(team_.WorldRank(from_), outbox_.count, outbox_.call.dtype,
                               team_.WorldRank(team_.rank()), recv_.count, recv_.dtype));
  }

  Team& team_;
  uint64_t& received_;
  const Buffer recv_;
  const int from_;
  const Outbox& outbox_;
  Inbox& inbox_;
  size_t next_ = 0;  // the first element not yet received
  bool done_ = false;
};

Mailbox::Mailbox(Team& team)
    : team_(team),
      posted_(static_cast<size_t>(team.size()), 0),
      received_(static_cast<size_t>(team.size()), 0) {}

Status Mailbox::Send(ConstBuffer send, int to, Deadline deadline) {
  Outgoing out(*this, send, to);
  LOCKSTEP_RETURN_IF_ERROR(out.Begin());
  while (!out.done()) {
    LOCKSTEP_RETURN_IF_ERROR(
        team_.WaitFor([&] { return out.CanStep(); }, {to}, "receive a message", deadline));
    LOCKSTEP_RETURN_IF_ERROR(out.Step());
  }
  return OkStatus();
}

Status Mailbox::Recv(Buffer recv, int from, Deadline deadline) {
  Incoming in(*this, recv, from);
  while (!in.done()) {
    LOCKSTEP_RETURN_IF_ERROR(
        team_.WaitFor([&] { return in.CanStep(); }, {from}, "send a message", deadline));
    LOCKSTEP_RETURN_IF_ERROR(in.Step());
  }
  return OkStatus();
}

Status Mailbox::SendRecv(ConstBuffer send, int to, Buffer recv, int from, Deadline deadline) {
  Outgoing out(*this, send, to);
  Incoming in(*this, recv, from);
  LOCKSTEP_RETURN_IF_ERROR(out.Begin());
  while (!out.done() || !in.done()) {
    const auto out_can = [&] { return !out.done() && out.CanStep(); };
    const auto in_can = [&] { return !in.done() && in.CanStep(); };
    // A peer that has done its part may leave: only the other one is waited for.
    const int awaited[] = {out.done() ? from : to, in.done() ? to : from};
    LOCKSTEP_RETURN_IF_ERROR(
        team_.WaitFor([&] { return out_can() || in_can(); },
                      absl::MakeConstSpan(awaited, awaited[0] == awaited[1] ? 1 : 2),
                      "send and receive messages", deadline));
    if (out_can()) LOCKSTEP_RETURN_IF_ERROR(out.Step());
    if (in_can()) LOCKSTEP_RETURN_IF_ERROR(in.Step());
  }
  return OkStatus();
}

}  // namespace lockstep::collective::shm
