// Messages between two ranks of a team.
//
// Each ordered pair of ranks has one Outbox (in the sender's block) and one Inbox (in the
// receiver's). The sender posts a message: data that fits into the line itself, or the place in its
// arena. The receiver takes it. The next message is posted when the last one has been taken. A
// message from outside the arena is posted in pieces, which are copied through it.
#pragma once

#include <memory>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"
#include "runtime/collective/shm/team.h"

namespace lockstep::collective::shm {

// Threads: as the team. Ownership: the team outlives it.
class Mailbox {
 public:
  explicit Mailbox(Team& team);

  Status Send(ConstBuffer send, int to, Deadline deadline);
  Status Recv(Buffer recv, int from, Deadline deadline);
  Status SendRecv(ConstBuffer send, int to, Buffer recv, int from, Deadline deadline);

 private:
  // A message on its way out, or in. Step() does what can be done without waiting, which CanStep()
  // says there is.
  class Outgoing;
  class Incoming;

  Team& team_;
  std::vector<uint64_t> posted_;    // messages so far, by receiver
  std::vector<uint64_t> received_;  // by sender
};

}  // namespace lockstep::collective::shm
