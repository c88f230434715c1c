// How ranks tell each other where they can be reached, before they can talk.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"

namespace lockstep::collective {

// Threads: one caller at a time.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;

  // Every member of `members` (ranks of the world, this one among them) calls this with the same
  // list and the same `key`, which may be used again when it is through on all of them. `mine[i]`
  // is for members[i]; a single one is for all. Returns what each member has given for this rank,
  // in the order of the list. kDeadlineExceeded names who did not come; kAborted once `cancelled`
  // (null: never) is true.
  virtual StatusOr<std::vector<std::string>> Exchange(uint64_t key, absl::Span<const Rank> members,
                                                      const std::vector<std::string>& mine,
                                                      const std::atomic<bool>* cancelled,
                                                      Deadline deadline) = 0;
};

// A member for whom something did not go well.
struct FailedMember {
  Rank rank = 0;  // of the world
  std::string why;
};

// All members tell each other, under `key`, how something went for them. Returns the first of them
// for whom it did not go well; nothing: it did for all. The errors of Exchange().
inline StatusOr<std::optional<FailedMember>> ShareOutcome(Rendezvous& rendezvous, uint64_t key,
                                                          absl::Span<const Rank> members,
                                                          const Status& mine,
                                                          const std::atomic<bool>* cancelled,
                                                          Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::vector<std::string> words,
      rendezvous.Exchange(key, members, {mine.ok() ? "" : Message(mine)}, cancelled, deadline));
  for (size_t i = 0; i < words.size(); ++i) {
    if (!words[i].empty()) return FailedMember{members[i], words[i]};
  }
  return std::nullopt;
}

}  // namespace lockstep::collective
