// Where a worker listens, and where others reach it.
#pragma once

#include <functional>
#include <string>

#include "runtime/base/status.h"
#include "services/worker/options.h"

namespace lockstep::worker {

// Where this rank listens for others that `backend` connects it with: at `data_address`, or where
// the controller is reached from. `can_encrypt`: that backend is able to.
// Errors: kUnavailable        a name is not known, or nothing leads there (yet)
//         kInvalidArgument    it is none of this host's addresses
//         kPermissionDenied   what is not encrypted may not leave this host
StatusOr<std::string> DataAddress(const WorkerOptions& options, const std::string& backend,
                                  bool can_encrypt);

// The endpoint at which the worker is to listen for bulk data. Hosts start in any order: the
// controller's name, or the way to it, may be known a moment later; this waits for it, and for what
// AdvertisedAs() takes, until `join_timeout` has passed, or `must_stop`, which is asked often.
StatusOr<std::string> AwaitBulkEndpoint(const WorkerOptions& options,
                                        const std::function<bool()>& must_stop);

// Where a worker listens for those that it passes commands on to: any free port where ranks reach
// each other. Whoever connects has to show a key. The errors of LocalAddress().
StatusOr<std::string> RelayEndpoint(const WorkerOptions& options);

// Where others reach what listens at `endpoint`.
StatusOr<std::string> AdvertisedAs(const std::string& endpoint, const WorkerOptions& options);
// The same of "http://...", or nothing: what listens at one address is reached there.
StatusOr<std::string> MetricsAdvertisedAs(const std::string& endpoint,
                                          const WorkerOptions& options);

}  // namespace lockstep::worker
