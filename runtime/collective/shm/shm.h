// The backend for ranks on one host: threads of one process, or processes that share /dev/shm.
//
// Every rank maps every other rank's arena, so a collective reads and writes the peers' tensors
// where they are. Tensors outside of the own arena work too; they are copied through it.
// README.md beside this file tells how it works, docs/collectives.md what each operation costs.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/communicator.h"
#include "runtime/tensor/arena.h"

namespace lockstep::collective::shm {

// How a rank passes the time until its peers come: first it spins, then it yields the processor
// again and again, then it sleeps. Waking a sleeper costs tens of microseconds; yielding costs
// others nothing, but keeps the processor from idling.
struct WaitPolicy {
  static constexpr int kAutomatic = -1;
  // Spins before the first yield. Automatic: some 4 µs if every rank of the world has a core of
  // its own, else none, because then spinning only keeps the peer from running.
  int spins = kAutomatic;
  std::chrono::microseconds yield_for{2000};
  // How often a sleeper looks whether the processes that it waits for still live, which takes a few
  // system calls each. Whatever else may happen to it wakes it.
  std::chrono::milliseconds look_after{200};
};

struct Options {
  Rank rank = 0;
  // The rank's own arena. Tensors in it are reached without copying.
  std::shared_ptr<tensor::Arena> arena;
  // The names of all ranks' arenas, the own included, in rank order.
  std::vector<std::string> arena_names;
  // The ranks to connect, in this order: those of one node. Empty: all.
  std::vector<Rank> members;
  // Tells worlds apart that share arenas, such as the epochs of one cluster: the same on all ranks.
  uint64_t world = 0;
  // True if all arenas had been created before any rank learned their names: then one that is not
  // there is that of a rank that ended, and is not waited for.
  bool arenas_exist = false;
  WaitPolicy wait;

  // The ranks to connect, spelled out.
  std::vector<Rank> Members() const;
};

// OK if this machine has shared memory to work with, else kUnavailable with what is missing.
Status Available();

// OK if the arena of this name can be mapped here, in this process or another; else why not.
Status TryToReach(const std::string& arena_name);

// Connects this rank with all other members. They may come later, in any order. `cancelled`, if
// given, ends the wait as soon as it is true.
//
// Errors: kInvalidArgument    options that cannot be
//         kDeadlineExceeded   names the ranks that did not come
//         kUnavailable        a rank ended; the message names it
//         kAborted            `cancelled`
//         kResourceExhausted  the arena's control area is full: too many communicators live
StatusOr<std::unique_ptr<Communicator>> Connect(const Options& options, Deadline deadline,
                                                const std::atomic<bool>* cancelled = nullptr);

}  // namespace lockstep::collective::shm
