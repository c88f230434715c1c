// Rounds of messages among all ranks of a transport.
//
// An operation begins with Meet(): all ranks tell all others what they call, and find out whether
// it is the same. Small data travels with it, so that a small operation is one round.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/call.h"
#include "runtime/collective/message/transport.h"
#include "runtime/collective/operation.h"

namespace lockstep::collective::message {

// Data of up to this size travels with what is announced (RoundRunner::Header). Together they are
// half a page. What the data does not fill is sent as zeros: no peer sees what lay in this memory
// before.
inline constexpr size_t kInlineBytes = 2048 - 24;

// Why communicators over the same connections were aborted.
//
// Threads: any.
class AbortCause {
 public:
  // True for the first cause, which stays.
  bool Set(const Status& cause) {
    std::lock_guard lock(mutex_);
    if (!aborted_.ok()) return false;
    aborted_ = Aborted(Message(cause));
    return true;
  }
  // OK, or kAborted with the cause's message.
  Status Get() const {
    std::lock_guard lock(mutex_);
    return aborted_;
  }

 private:
  mutable std::mutex mutex_;
  Status aborted_;
};

// What all ranks must call alike.
struct Announcement {
  Call call;
  uint64_t count = 0;  // told in errors
  Counts counts = {};  // compared; of an all-to-all, this rank's own: sent, then received
};

// What goes to each rank, and what comes from it; this rank's own entries are not used.
struct Parts {
  explicit Parts(int size) : send(static_cast<size_t>(size)), recv(static_cast<size_t>(size)) {}
  std::vector<absl::Span<const std::byte>> send;
  std::vector<absl::Span<std::byte>> recv;
};

// Threads: one at a time, but for Abort().
class RoundRunner {
 public:
  // `members`: the world ranks of the transport's ranks. `abort_cause` is shared by all that share
  // connections, which can only be aborted together.
  RoundRunner(std::unique_ptr<Transport> transport, std::vector<Rank> members,
              std::shared_ptr<AbortCause> abort_cause);

  Transport& transport() const { return *transport_; }
  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  const std::vector<Rank>& members() const { return members_; }
  Rank WorldRank(Rank r) const { return members_[static_cast<size_t>(r)]; }
  const std::shared_ptr<AbortCause>& abort_cause() const { return abort_cause_; }

  // OK, or the failure or abort that ended this.
  Status Usable();
  // Leaves with the first failure, which is returned.
  Status Fail(const Status& failure);
  void Abort(const Status& cause);
  // Errors tell of `whole` instead of the operations, which are parts of it.
  void ReportAs(std::string whole) { whole_ = std::move(whole); }
  // The operation under way, for errors.
  void SetWhat(std::string what) { what_ = std::move(what); }

  // Compares the operation with what the others call, and moves the parts. kInvalidArgument on all
  // ranks if they disagree.
  Status Meet(const Announcement& announced, const Parts& parts, Deadline deadline);
  // Moves more parts of the operation that was met for last; those of `also` (may be null) at the
  // same time.
  Status Move(const Parts& parts, Deadline deadline, const Parts* also = nullptr);

  // Messages outside of rounds, under tags of their own.
  void Add(const Outgoing& outgoing) { outgoing_.push_back(outgoing); }
  void Add(const Incoming& incoming) { incoming_.push_back(incoming); }
  // Sends and receives what has been added, and forgets it.
  Status RunAdded(Deadline deadline);

 private:
  struct Header;

  Status Explain(const Outcome& outcome, const std::string& what);
  Status Compare(Deadline deadline);
  Status CompareAllToAll(const Announcement& announced, Deadline deadline);
  // The `numbers` of all ranks, as many of each, by rank.
  StatusOr<std::vector<int64_t>> ShareNumbers(absl::Span<const int64_t> numbers, Deadline deadline);
  StatusOr<std::vector<std::string>> ShareTexts(const std::string& text, Deadline deadline);
  Status RunRound(const Parts& parts, size_t above_bytes, Deadline deadline);
  // Adds what is longer than `above_bytes` to outgoing_ and incoming_.
  void AddRound(const Parts& parts, size_t above_bytes);
  Header& HeaderTo(int r);
  const Header& HeaderFrom(int r) const;

  const std::unique_ptr<Transport> transport_;
  const std::vector<Rank> members_;
  Status failure_;
  const std::shared_ptr<AbortCause> abort_cause_;

  std::string whole_;               // of which operations are parts
  std::string what_;                // the operation under way
  uint64_t rounds_ = 0;             // of messages among all ranks, so far: the same on all
  std::vector<std::byte> headers_;  // this rank's to each, then each rank's
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
};

}  // namespace lockstep::collective::message
