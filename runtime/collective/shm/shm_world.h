// The ranks of one world as one process sees them: its own arena, and the arenas of all others,
// mapped.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/shared_segment.h"
#include "runtime/base/status.h"
#include "runtime/collective/shm/directory.h"
#include "runtime/collective/shm/shm.h"
#include "runtime/tensor/arena.h"

namespace lockstep::collective::shm {

// An arena of this process, with its directory. One per arena, however many worlds use it.
//
// Threads: safe.
class LocalArena {
 public:
  // The LocalArena of `arena`, made if there is none yet.
  static std::shared_ptr<LocalArena> Of(const std::shared_ptr<tensor::Arena>& arena);
  // The LocalArena of the arena of this name in this process, or null.
  static std::shared_ptr<LocalArena> Find(const std::string& arena_name);

  explicit LocalArena(std::shared_ptr<tensor::Arena> arena);

  tensor::Arena& arena() const { return *arena_; }
  const Directory& directory() const { return directory_; }

  StatusOr<Directory::Found> OpenBlock(uint64_t key, size_t block_bytes);
  // True if a block that does not fit now may fit once ranks that are behind have closed theirs.
  bool MayGetRoom();

 private:
  const std::shared_ptr<tensor::Arena> arena_;
  std::mutex mutex_;  // of directory_.Open()
  Directory directory_;
};

// A rank's arena as this process sees it. Ranks that are threads of this process are reached at the
// address where the arena already is; those of others are mapped. A copy shares the mapping.
class Peer {
 public:
  // Waits until the rank has initialised its arena. Errors: kDeadlineExceeded; kAborted once
  // `cancelled` (may be null) is true; kUnavailable if the arena's owner has ended, of which a name
  // that does not exist is a sign only where it `must_exist`.
  static StatusOr<Peer> Map(const std::string& arena_name, bool must_exist,
                            const std::atomic<bool>* cancelled, Deadline deadline);
  explicit Peer(std::shared_ptr<LocalArena> home);

  std::byte* base() const { return base_; }
  Directory directory() const { return Directory(base_); }
  // False once the process that made the arena has ended, whether or not its name is there. Takes a
  // few system calls.
  bool IsAlive() const;

 private:
  explicit Peer(std::unique_ptr<SharedSegment> segment);

  std::byte* base_;
  std::shared_ptr<LocalArena> home_;
  std::shared_ptr<SharedSegment> segment_;  // null for a rank of this process
};

// Threads: immutable.
class ShmWorld {
 public:
  // Of the ranks in `members`.
  static StatusOr<std::shared_ptr<ShmWorld>> Connect(const Options& options,
                                                     const std::atomic<bool>* cancelled,
                                                     Deadline deadline);

  // The members.
  int size() const { return static_cast<int>(peers_.size()); }
  LocalArena& home() const { return *home_; }
  // One of the members, which may be this rank.
  const Peer& peer(Rank world_rank) const { return peers_.at(world_rank); }
  const WaitPolicy& wait() const { return wait_; }

 private:
  ShmWorld(std::shared_ptr<LocalArena> home, std::map<Rank, Peer> peers, WaitPolicy wait)
      : home_(std::move(home)), peers_(std::move(peers)), wait_(wait) {}

  const std::shared_ptr<LocalArena> home_;
  const std::map<Rank, Peer> peers_;
  const WaitPolicy wait_;
};

}  // namespace lockstep::collective::shm
