// Broadcast, AllGather, Gather, Scatter, AllToAll: copies, without arithmetic.
//
// As a rule the receiver copies, straight from where the data is. A large broadcast or gather has
// fewer sources or receivers than ranks; there every rank copies a share, if it can reach the
// memory that is written.
#pragma once

#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/operation.h"
#include "runtime/collective/shm/team.h"

namespace lockstep::collective::shm {

// Of arguments that have been checked; see Communicator.
//
// Threads: as the team. Ownership: the team outlives it.
class Movements {
 public:
  explicit Movements(Team& team);
  // For tests: broadcasts from this size on are shared (see Broadcast()), if all ranks say so.
  Movements(Team& team, size_t least_shared_bytes);

  Status Broadcast(ConstBuffer send, Buffer recv, Rank root, Deadline deadline);
  Status AllGather(ConstBuffer send, Buffer recv, Counts counts, Deadline deadline);
  Status Gather(ConstBuffer send, Buffer recv, Counts counts, Rank root, Deadline deadline);
  Status Scatter(ConstBuffer send, Buffer recv, Counts counts, Rank root, Deadline deadline);
  Status AllToAll(ConstBuffer send, Counts send_counts, Buffer recv, Counts recv_counts,
                  Deadline deadline);

 private:
  int rank() const { return team_.rank(); }
  int size() const { return team_.size(); }
  // Calls what(r, offset, count) for each rank, this one first, which is in its cache. `offset`:
  // elements before the part of rank `r`. Parts that every rank reads are read in the same order by
  // all, so that later readers find them in a cache; parts that one rank alone reads in another
  // order by each, so that ranks do not crowd on one peer.
  enum class Order { kSameForAll, kFromOwnOn };
  template <typename Do>
  void ForEachPart(Counts counts, Order order, Do&& what) const;
  // Checks that all pairs of an all-to-all agree. Returns the length of the longest part.
  StatusOr<size_t> ComparePairs() const;

  Team& team_;
  const size_t least_shared_bytes_;
  std::vector<void*> destinations_;  // scratch of one operation, so that none allocates
};

}  // namespace lockstep::collective::shm
