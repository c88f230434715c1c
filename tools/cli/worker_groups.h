// Many workers as few lines: those of which there is the same to say are one group, and those that
// differ from most come first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/client/admin.h"

namespace lockstep::cli {

// Of up to so many workers each has a line of its own.
inline constexpr size_t kMostSingleWorkers = 16;

struct WorkerGroup {
  std::vector<const WorkerStatus*> workers;  // by rank; borrowed
  bool is_apart = false;  // they have a group of their own although they do what others do

  size_t size() const { return workers.size(); }
  const WorkerStatus& front() const { return *workers.front(); }
  // Of those that do something that of the longest, else the first.
  const WorkerStatus& longest() const;
  std::vector<Rank> ranks() const;
};

// By state, device, backend, and what they execute. Those that have taken far fewer batches than
// the others, and those that `apart` names (by place in `workers`; empty: none), are apart. In this
// order: lost, stuck, apart, not ready, and all others; then small groups before large ones.
std::vector<WorkerGroup> GroupWorkers(const std::vector<WorkerStatus>& workers,
                                      const std::vector<bool>& apart = {});

// Whether it executes what lasts: commands of a moment come and go between two heartbeats.
bool DoesWhatLasts(const WorkerStatus& worker);

// "cuda" of "cuda:3": those of a host differ in nothing else.
std::string KindOfDevice(const std::string& device);

// They execute the same function of the same session, at the same place, although it may be another
// call of it; or nothing.
bool IsSameWork(const WorkerStatus& a, const WorkerStatus& b);

// What they execute: "command 17 (solve) of session 3 for 12.1 s", "commands 17-23 (solve) of
// session 3 for up to 12.1 s", "nothing".
std::string DescribeWork(const std::vector<const WorkerStatus*>& workers);

// Why a worker is lost; as one of several, without what tells it from the others.
std::string LostBecause(const WorkerStatus& worker, bool is_one);
// They were lost alike.
bool IsSameLoss(const WorkerStatus& a, const WorkerStatus& b);

// "box", "box, crate", "box, crate and 62 more hosts"
std::string HostsOf(const std::vector<const WorkerStatus*>& workers, size_t most);

// "17", "17-23": the least and the most.
std::string CountRange(uint64_t least, uint64_t most);

}  // namespace lockstep::cli
