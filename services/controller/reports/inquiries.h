// Clients that want to know what the workers are doing, or what their registers hold, and the
// workers' reports for them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "services/controller/common/clock.h"

namespace lockstep::controller {

struct Inquiry {
  control::PeerName client;
  uint64_t request = 0;
  bool about_registers = false;
  Rank rank = -1;  // the only one that is asked; -1: all
  Deadline deadline = Deadline::At({});
  std::vector<bool> waiting = {};  // by rank: has not reported yet
  // By rank: a LivenessMessage with its report; empty: it has not reported.
  std::vector<control::Frame> reports = {};
};

// Threads: one at a time.
class Inquiries {
 public:
  using Finish = std::function<void(const Inquiry&)>;
  // Of all clients together.
  static constexpr size_t kMostAtOnce = 64;

  // `finish` is called once per inquiry: when all have reported, or at its deadline.
  explicit Inquiries(Finish finish) : finish_(std::move(finish)) {}

  // OK if the client may ask. Every question is one to all workers, so no client has two under way:
  // kResourceExhausted.
  Status CheckRoom(const control::PeerName& client) const;
  // Starts waiting for the ranks in `waiting`; if there is none, it is complete at once. Returns
  // the number of the probe to send them. Of `inquiry` the client and the question count.
  uint64_t Begin(Inquiry inquiry, std::vector<bool> waiting, Deadline deadline);
  // A report of `rank`. One that is not waited for is ignored.
  void Add(uint64_t probe, Rank rank, const control::Frame& report);
  // Completes what is late. Returns the next deadline, or one far away.
  Deadline Expire(TimePoint now);
  // Completes all, with the reports that have come.
  void CompleteAll() {
    while (!pending_.empty()) Complete(pending_.begin());
  }

 private:
  void Complete(std::map<uint64_t, Inquiry>::iterator inquiry);

  const Finish finish_;
  uint64_t last_probe_ = 0;
  std::map<uint64_t, Inquiry> pending_;  // by probe
};

}  // namespace lockstep::controller
