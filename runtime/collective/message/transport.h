// Messages between the ranks of one group: what a network has to offer for a communicator to be
// built on it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"

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
// Ownership: the messages' memory is borrowed until Run() returns, after which nobody touches it.
// Errors: after any outcome but kDone nothing can be sent any more.
class Transport {
 public:
  // Leaves.
  virtual ~Transport() = default;

  virtual std::string_view name() const = 0;  // "gloo", "mpi"
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
  virtual std::optional<Status> FarewellOf(Rank peer) = 0;

  // A new one among the members named in `group_ranks`; see Communicator::Split. Works also after
  // this one has failed.
  virtual StatusOr<std::unique_ptr<Transport>> Split(absl::Span<const Rank> group_ranks,
                                                     uint64_t tag,
                                                     const std::atomic<bool>* cancelled,
                                                     Deadline deadline) = 0;
};

}  // namespace lockstep::collective::message
