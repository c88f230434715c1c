// Which GPU a worker takes, where its configuration does not say.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/collective/rendezvous.h"
#include "services/worker/join/membership.h"

namespace lockstep::worker {

// What a rank may use, for the others.
struct GpuOffer {
  std::string host;               // the same text for all workers of a host
  std::vector<std::string> gpus;  // their names on the host, best first; empty: it uses none
};

// The number, in each rank's own list, of the GPU that it takes; -1: it uses none. In the order of
// the ranks, each takes the first of its list that no rank before it has, or makes room by moving
// those who can use another: so the workers of a host use different ones, also where containers see
// different ones. kFailedPrecondition names a rank for whom none is left.
StatusOr<std::vector<int>> ChooseGpus(const std::vector<GpuOffer>& offers);

// All ranks of the world tell each other their offers; the errors of Rendezvous::Exchange().
StatusOr<std::vector<GpuOffer>> ExchangeOffers(const Membership& membership, const GpuOffer& mine,
                                               collective::Rendezvous& rendezvous,
                                               const std::atomic<bool>& cancelled,
                                               Deadline deadline);

}  // namespace lockstep::worker
