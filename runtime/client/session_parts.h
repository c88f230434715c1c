// What a Session is made of.
#pragma once

#include <memory>
#include <mutex>

#include "runtime/client/address.h"
#include "runtime/client/bulk_copy.h"
#include "runtime/client/cluster_tracer.h"
#include "runtime/client/session.h"
#include "runtime/client/session_core.h"

namespace lockstep {

struct Session::Parts {
  std::shared_ptr<client::SessionCore> core;
  std::unique_ptr<client::BulkCopier> bulk;

  // How the session was reached, for the connection that a trace needs.
  ControllerAddress controller;
  std::shared_ptr<control::ZmqContext> context;
  std::mutex tracer_mutex;
  std::unique_ptr<ClusterTracer> tracer;  // while a timeline is recorded

  Status CheckRank(Rank rank) const {
    const int num_workers = core->facts().num_workers;
    if (rank >= 0 && rank < num_workers) return OkStatus();
    return InvalidArgument("there is no rank ", rank, "; the ranks are 0 to ", num_workers - 1);
  }
};

}  // namespace lockstep
