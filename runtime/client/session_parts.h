// What a Session is made of.
#pragma once

#include <memory>
#include <vector>

#include "runtime/client/bulk_copy.h"
#include "runtime/client/session.h"
#include "runtime/client/session_core.h"

namespace lockstep {

struct Session::Parts {
  std::shared_ptr<client::SessionCore> core;
  std::unique_ptr<client::BulkCopier> bulk;
  std::vector<WorkerInfo> workers;
  int num_groups = 1;

  Status CheckRank(Rank rank) const {
    if (rank >= 0 && rank < static_cast<Rank>(workers.size())) return OkStatus();
    return InvalidArgument("there is no rank ", rank, "; the ranks are 0 to ", workers.size() - 1);
  }
};

}  // namespace lockstep
