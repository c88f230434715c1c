// Messages between two ranks: both tell each other what they send and expect, then the data
// follows.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/message/round_runner.h"

namespace lockstep::collective::message {

// Of arguments that have been checked; see Communicator.
//
// Threads: one at a time. Ownership: `rounds` is borrowed.
class PairMessages {
 public:
  explicit PairMessages(RoundRunner& rounds)
      : rounds_(rounds), sent_(rounds.members().size()), received_(rounds.members().size()) {}

  Status Send(ConstBuffer send, Rank to, Deadline deadline);
  Status Recv(Buffer recv, Rank from, Deadline deadline);
  Status SendRecv(ConstBuffer send, Rank to, Buffer recv, Rank from, Deadline deadline);

 private:
  // One message of this rank, as its sender or its receiver.
  class Transfer;
  template <typename... Transfers>
  Status Run(Deadline deadline, const Transfers&... transfers);

  RoundRunner& rounds_;
  // By rank: messages to it and from it, so far.
  std::vector<uint64_t> sent_;
  std::vector<uint64_t> received_;
};

}  // namespace lockstep::collective::message
