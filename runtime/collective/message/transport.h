// Messages between the ranks of one group: what a network has to offer for a communicator to be
// built on it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/call.h"

namespace lockstep::collective::message {

// Under a tag that no other message between the same two ranks, in the same direction, has. Both
// sides give the same size. No rank sends to itself. Empty messages are not sent.
struct Outgoing {
  Rank to = 0;
  uint64_t tag = 0;
  const void* data = nullptr;
  size_t size_bytes = 0;
};
struct Incoming {
  Rank from = 0;
  uint64_t tag = 0;
  void* data = nullptr;
  size_t size_bytes = 0;
};

struct Outcome {
  enum class Kind {
    kDone,
    kExpired,  // the deadline passed before the messages of `ranks` came, or were taken
    kAborted,  // by Cancel()
    kLost,     // there is no way to `ranks` any more
  };
  Kind kind = Kind::kDone;
  std::vector<Rank> ranks = {};
};

// Threads: one caller at a time; Cancel() may come from any.
// Ownership: the messages' memory is borrowed until Run() returns, after which it is not touched
// any more. Errors: after any outcome but kDone nothing can be sent any more.
class Transport {
 public:
  // Leaves.
  virtual ~Transport() = default;

  virtual std::string_view name() const = 0;  // "tcp", "gloo", "mpi"
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Sends and receives all of them, in any order, and returns when all is through.
  virtual Outcome Run(absl::Span<const Outgoing> outgoing, absl::Span<const Incoming> incoming,
                      Deadline deadline) = 0;

  // The running Run(), and every later one, ends with kAborted.
  virtual void Cancel() = 0;

  // Tells the others that this rank sends and receives no more: they get kLost at once. `why` (of
  // its message, the first kilobyte) is for them to know; OK: it has no use for them any more.
  virtual void Leave(const Status& why) = 0;
  // What `peer`, which was lost, has said when it left; none: it ended, or the way to it.
  virtual std::optional<Status> LeaveReasonOf(Rank peer) = 0;

  // A new one among the members named in `group_ranks`; see Communicator::Split. Works also after
  // this one has failed.
  virtual StatusOr<std::unique_ptr<Transport>> Split(absl::Span<const Rank> group_ranks,
                                                     uint64_t tag,
                                                     const std::atomic<bool>* cancelled,
                                                     Deadline deadline) = 0;
};

// How long the text may be that a rank tells the others when it leaves.
inline constexpr size_t kLeaveReasonBytes = 1016;

// What a rank has told when it left, as it crosses a network.
inline Status ReadLeaveReason(uint64_t code, std::string_view text) {
  const auto known = static_cast<uint64_t>(StatusCode::kUnauthenticated);
  return Status(code <= known ? static_cast<StatusCode>(code) : StatusCode::kUnknown,
                std::string(text.substr(0, kLeaveReasonBytes)));
}

// The ranks of a transport.
struct Team {
  // Under which its members meet: the same on all of them.
  uint64_t key = 0;
  std::vector<Rank> members = {};  // ranks of the world
  int rank = 0;                    // this rank's number among them

  // All ranks of a world. `number` tells worlds apart that meet at one rendezvous.
  static Team OfWorld(uint64_t number, int size, Rank rank) {
    Team team = {.key = Mix(Mix(0, number), static_cast<uint64_t>(size)), .rank = rank};
    for (Rank r = 0; r < size; ++r) team.members.push_back(r);
    return team;
  }
  // The members that are named in `group_ranks`, as numbers among these; this rank is one of them.
  Team Split(absl::Span<const Rank> group_ranks, uint64_t tag) const {
    Team team = {.key = Mix(key, tag)};
    for (const Rank r : group_ranks) {
      if (r == rank) team.rank = static_cast<int>(team.members.size());
      team.key = Mix(team.key, static_cast<uint64_t>(r));
      team.members.push_back(members[static_cast<size_t>(r)]);
    }
    return team;
  }
};

}  // namespace lockstep::collective::message
