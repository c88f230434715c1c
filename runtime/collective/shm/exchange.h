// One collective operation under way: whose data is where, and how much of it is moved at a time.
//
// A rank whose tensor lies in its arena tells the others where; they reach it directly. One whose
// tensor is elsewhere copies it, window by window, through a piece of its arena. If any rank does,
// all go through the same windows; else one window spans everything.
//
//     Exchange x(team, call, send, parts, recv);
//     x.Compare(count);
//     x.Begin(deadline)                          publish, meet
//     x.ForEachWindow(extent, work, deadline)    work(w) moves window w from Source to Destination
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>

#include "runtime/base/deadline.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"
#include "runtime/collective/communicator.h"
#include "runtime/collective/shm/team.h"

namespace lockstep::collective::shm {

// The elements [begin, end) of every part.
struct Window {
  size_t begin = 0;
  size_t end = 0;

  // How many elements of a part of `count` lie in the window.
  size_t CountOf(int64_t count) const {
    const auto all = static_cast<size_t>(count);
    return std::min(end, all) - std::min(begin, all);
  }
};

// Lives on the stack of one operation. The buffers and `parts` are borrowed.
class Exchange {
 public:
  // `parts` are the lengths of what `send` consists of, one after the other; a rank that sends
  // nothing has none.
  Exchange(Team& team, Call call, ConstBuffer send, Counts parts, Buffer recv)
      : team_(team),
        call_(call),
        send_(send),
        parts_(parts),
        recv_(recv),
        element_bytes_(SizeOf(call.dtype)) {}
  ~Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // What all ranks must agree about beside the call: a number of elements, or one for each rank.
  void Compare(size_t count) { count_ = count; }
  void Compare(Counts counts);
  // An all-to-all compares its counts pair by pair.
  void CompareByPairs(Counts send_counts, Counts recv_counts);

  // The others may write to `recv` if it lies in the arena...
  void OfferRecv() {
    call_.recv = Reaches(recv_) ? BufferLocation::kArena : BufferLocation::kPrivate;
  }
  // ... or wherever it lies.
  void OfferRecvAnywhere() {
    call_.recv = Reaches(recv_) ? BufferLocation::kArena : BufferLocation::kStaged;
  }

  Status Begin(Deadline deadline);

  // Before Begin(), where each rank computes its slice (SliceOf) of every window for all of them:
  // it writes that to its own Destination(), and to those of the ranks that do not StagesRecv(). A
  // rank that does collects the slices from there, so that they are copied to it once.
  void CollectSlices() { collects_slices_ = true; }
  // After Begin(): true if `recv` of that rank is written to by way of its arena.
  bool StagesRecv(int r) const { return team_.SlotOf(r).call.recv == BufferLocation::kStaged; }

  // After Begin(): true if ranks touch each other's tensors, and finish together.
  bool touches() const { return touches_; }
  // True if every rank that offered `recv` can be written to.
  bool all_reachable() const { return all_reachable_; }
  // True if every rank did, and can.
  bool all_offered() const { return all_offered_; }

  // Calls work(Window) for consecutive windows that cover [0, extent). `extent` is the length of
  // the longest part, the same on every rank.
  template <typename Work>
  Status ForEachWindow(size_t extent, Work work, Deadline deadline);

  // Where the window's elements of rank `r`'s part number `part` begin; `offset` elements lie
  // before that part in its send buffer. Only for parts that have elements in the window.
  const std::byte* Source(int r, size_t part, size_t offset, const Window& window) const;
  // Where the window's elements go to in the recv buffer of rank `r`, behind `offset` others.
  std::byte* Destination(int r, size_t offset, const Window& window) const;

 private:
  // How much of its arena a rank uses for each tensor outside of it.
  static constexpr size_t kStageBytes = size_t{4} << 20;

  // True if the others can reach the buffer. A team of one has no others.
  bool Reaches(ConstBuffer buffer) const {
    return team_.size() == 1 || team_.arena().Contains(buffer.data) || buffer.count == 0;
  }
  Status PlaceSend(Slot& slot);
  Status PlaceRecv(Slot& slot);
  void Survey();
  // Elements of each part that are moved at a time, if any rank stages.
  size_t StageLength() const;
  void StageIn(size_t begin);
  void StageOut(const Window& window);
  void CollectSlicesOf(const Window& window);

  Team& team_;
  Call call_;
  const ConstBuffer send_;
  const Counts parts_;
  const Buffer recv_;
  const size_t element_bytes_;
  uint64_t count_ = 0;
  uint64_t counts_hash_ = 0;
  uint64_t each_ = 0;
  size_t send_stride_ = 0;  // elements between the parts in send_stage_
  std::shared_ptr<tensor::Storage> send_stage_;
  std::shared_ptr<tensor::Storage> recv_stage_;
  bool touches_ = false;
  bool staged_ = false;
  bool recv_staged_ = false;  // some rank's is
  bool collects_slices_ = false;
  bool all_reachable_ = true;
  bool all_offered_ = true;
};

template <typename Work>
Status Exchange::ForEachWindow(size_t extent, Work work, Deadline deadline) {
  if (!touches_) {
    work(Window{0, extent});
    return OkStatus();
  }
  const size_t length = staged_ ? StageLength() : extent;
  Window window{0, std::min(length, extent)};
  for (;;) {
    LOCKSTEP_RETURN_IF_ERROR(team_.BeginTouching());
    work(window);
    LOCKSTEP_RETURN_IF_ERROR(team_.FinishPhase(deadline));
    if (recv_stage_ != nullptr && collects_slices_) {
      LOCKSTEP_RETURN_IF_ERROR(team_.BeginTouching());
      CollectSlicesOf(window);
    } else if (recv_stage_ != nullptr) {
      StageOut(window);
    }
    if (window.end == extent) {
      // Until then the others' results are read.
      return collects_slices_ && recv_staged_ ? team_.FinishPhase(deadline) : OkStatus();
    }
    window = {window.end, window.end + std::min(length, extent - window.end)};
    if (send_stage_ != nullptr) StageIn(window.begin);
    LOCKSTEP_RETURN_IF_ERROR(team_.FinishPhase(deadline));
  }
}

}  // namespace lockstep::collective::shm
