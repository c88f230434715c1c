// Executes reshard commands: from a tile in a register, by the steps of this rank, to another tile.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/plan/layout.h"
#include "runtime/plan/lowering/topology.h"
#include "runtime/plan/recently_used.h"
#include "runtime/registers/register_file.h"
#include "schemas/control.capnp.h"
#include "services/worker/execute/plan_execution.h"
#include "services/worker/execute/prepared_program.h"

namespace lockstep::worker {

// What a reshard between two layouts is on this rank: a program of one operation, whose output has
// memory of its own.
struct PreparedReshard {
  std::optional<Shape> old_tile;  // nothing: this rank is not in the mesh
  std::optional<Shape> new_tile;
  registers::LayoutPtr new_layout;
  std::shared_ptr<const PreparedProgram> program;
};

// Reshards that were lowered before: a pair of layouts is lowered once.
//
// Threads: one at a time.
class ReshardCache {
 public:
  // Of one rank. What is beyond goes in the order in which it was used last.
  static constexpr size_t kMaxEntries = 64;
  static constexpr size_t kMaxBytes = size_t{32} << 20;

  // In a world of ranks on these nodes, by rank. What was lowered for another one is forgotten.
  void SetWorld(Rank rank, std::vector<int> nodes);

  // The errors of plan::LowerReshard().
  StatusOr<std::shared_ptr<const PreparedReshard>> Prepare(const plan::Layout& from,
                                                           const plan::Layout& to);

  const plan::CacheUse& use() const { return entries_.use(); }

 private:
  struct Entry {
    plan::Layout from;
    plan::Layout to;
    std::shared_ptr<const PreparedReshard> prepared;
  };

  Rank rank_ = 0;
  plan::Topology topology_;
  plan::RecentlyUsed<Entry> entries_{{kMaxEntries, kMaxBytes}};
};

// Executes `command` as this rank's part. The data is moved on the GPUs of the ranks, if all that
// have any of it have one, else in host memory; a source that lies elsewhere is copied there, and
// the result lies where the source did, and its register carries the new layout. kInvalidArgument
// for layouts that cannot be, for a source whose register carries another layout, and for one that
// is not the tile that its layout says.
Status ExecuteReshard(const PlanExecution::Worker& worker, wire::Command::Reshard::Reader command,
                      ReshardCache& cache);

}  // namespace lockstep::worker
