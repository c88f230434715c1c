// What a Session is made of.
#pragma once

#include <memory>

#include "runtime/client/bulk_copy.h"
#include "runtime/client/session.h"
#include "runtime/client/session_core.h"

namespace lockstep {

struct Session::Parts {
  std::shared_ptr<client::SessionCore> core;
  std::unique_ptr<client::BulkCopier> bulk;

  Status CheckRank(Rank rank) const {
    const int num_workers = core->facts().num_workers;
    if (rank >= 0 && rank < num_workers) return OkStatus();
    return InvalidArgument("there is no rank ", rank, "; the ranks are 0 to ", num_workers - 1);
  }
};

}  // namespace lockstep
