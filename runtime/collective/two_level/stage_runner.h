// What an operation on two levels goes through: inside of the node, across, and inside again.
//
// The ranks of a node agree about what they call first, and, after the crossing, about how it went:
// no rank waits for one that has failed, and all return the same failure.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/call.h"
#include "runtime/collective/communicator.h"
#include "runtime/collective/message/message_communicator.h"
#include "runtime/collective/two_level/layout.h"
#include "runtime/collective/workspace.h"

namespace lockstep::collective::two_level {

// An operation under way. Its three stages have deadlines one after the other, so that those who
// notice first what is missing can say so to those who only wait for them.
struct Stages {
  Deadline inside;
  Deadline across;
  Deadline after;
};

// Threads: one at a time, but for Abort().
class StageRunner {
 public:
  // `node` connects the ranks of this rank's node (null: it is alone there), `network` all ranks.
  StageRunner(Layout layout, std::unique_ptr<Communicator> node,
              std::unique_ptr<message::MessageCommunicator> network);

  const Layout& layout() const { return layout_; }
  Communicator* node() const { return node_.get(); }
  message::MessageCommunicator& network() const { return *network_; }
  Rank rank() const { return network_->rank(); }
  int size() const { return network_->size(); }
  absl::Span<const Rank> members() const { return network_->members(); }
  // The operation under way, for errors.
  const std::string& what() const { return what_; }

  const Status& failure() const { return failure_; }
  // The first failure, which is returned, is that of all later operations, and told to the others.
  Status Fail(const Status& failure);
  void Abort(const Status& cause);
  void ReportAs(std::string whole) { whole_ = std::move(whole); }

  // Begins an operation: OK if all ranks of the node call the same.
  StatusOr<Stages> Begin(const Call& call, uint64_t count, Counts counts, Deadline deadline);
  // A stage inside; a failure is final.
  Status Inside(const Status& status) { return status.ok() ? status : Fail(status); }
  // The crossing on this rank's rail; OK without doing anything if it has none, or `used` is false.
  template <typename Cross>
  Status OnRail(bool used, Cross cross) {
    return rail_ != nullptr && used ? cross(*rail_) : OkStatus();
  }
  // Ends the crossing, of which this rank's part came to `crossed`: OK if it went well for all
  // ranks of the node.
  Status EndCrossing(const Status& crossed, const Stages& stages);
  // Hands each rank of the node its part of the node's data, of which `mine` has come by this
  // rank's rail.
  Status HandOut(ConstBuffer mine, const RailPacking& packing, Buffer recv, Deadline deadline);

  // Memory of this operation. Having none is a failure.
  enum Area { kWideIn, kWideOut, kSegment, kPacked, kSlice, kPiece, kAreas };
  StatusOr<Buffer> Scratch(Area area, size_t count, DType dtype);

 private:
  const Layout layout_;
  const std::unique_ptr<Communicator> node_;
  const std::unique_ptr<message::MessageCommunicator> network_;
  const std::unique_ptr<Communicator> rail_;  // over network_'s connections; null: it has none
  std::string whole_;
  std::string what_;
  Status failure_;
  Workspace scratch_[kAreas];
};

}  // namespace lockstep::collective::two_level
