#include "runtime/collective/shm/shm_world.h"

#include <unistd.h>

#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "runtime/base/rank_text.h"
#include "runtime/collective/call.h"
#include "runtime/collective/shm/waiter.h"

namespace lockstep::collective::shm {
namespace {

// The arenas of this process, so that ranks that are its threads use one mapping: it saves address
// space, and lets ThreadSanitizer see that they touch the same memory.
struct LocalArenas {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<LocalArena>> by_name;
};

LocalArenas& AllLocalArenas() {
  static LocalArenas* const homes = new LocalArenas;  // never destroyed: threads may outlive main
  return *homes;
}

// Identifies this process, beyond its number: those repeat in other containers. A forked child has
// another one than its parent.
uint64_t ProcessToken() {
  static const uint64_t random = std::random_device()() | uint64_t{std::random_device()()} << 32;
  return Mix(random, static_cast<uint64_t>(getpid()));
}

}  // namespace

LocalArena::LocalArena(std::shared_ptr<tensor::Arena> arena)
    : arena_(std::move(arena)), directory_(arena_->control()) {}

std::shared_ptr<LocalArena> LocalArena::Of(const std::shared_ptr<tensor::Arena>& arena) {
  LocalArenas& homes = AllLocalArenas();
  const std::lock_guard<std::mutex> lock(homes.mutex);
  std::weak_ptr<LocalArena>& known = homes.by_name[arena->name()];
  std::shared_ptr<LocalArena> home = known.lock();
  if (home == nullptr) {
    home = std::shared_ptr<LocalArena>(new LocalArena(arena), [](LocalArena* dying) {
      {
        LocalArenas& all = AllLocalArenas();
        const std::lock_guard<std::mutex> inner(all.mutex);
        const auto it = all.by_name.find(dying->arena().name());
        // A new LocalArena of the same arena may have taken the place already.
        if (it != all.by_name.end() && it->second.expired()) all.by_name.erase(it);
      }
      delete dying;
    });
    known = home;
    home->directory_.Initialise(arena->control_bytes(), ProcessToken());
  }
  return home;
}

std::shared_ptr<LocalArena> LocalArena::Find(const std::string& arena_name) {
  LocalArenas& homes = AllLocalArenas();
  const std::lock_guard<std::mutex> lock(homes.mutex);
  const auto it = homes.by_name.find(arena_name);
  return it == homes.by_name.end() ? nullptr : it->second.lock();
}

StatusOr<Directory::Found> LocalArena::OpenBlock(uint64_t key, size_t block_bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return directory_.Open(key, block_bytes);
}

bool LocalArena::MayGetRoom() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return directory_.CountGivenUp() > 0;
}

Peer::Peer(std::shared_ptr<LocalArena> home)
    : base_(home->arena().base()), home_(std::move(home)) {}
Peer::Peer(std::unique_ptr<SharedSegment> segment)
    : base_(segment->data()), segment_(std::move(segment)) {}

StatusOr<Peer> Peer::Map(const std::string& arena_name, bool must_exist,
                         const std::atomic<bool>* cancelled, Deadline deadline) {
  constexpr auto kLookAfter = std::chrono::milliseconds(200);
  std::shared_ptr<LocalArena> home;
  std::unique_ptr<SharedSegment> segment;
  Status failure;
  const auto came = [&] {
    home = LocalArena::Find(arena_name);
    if (home != nullptr) return true;
    if (segment == nullptr) {
      StatusOr<std::unique_ptr<SharedSegment>> opened = SharedSegment::Open(arena_name);
      if (opened.ok()) {
        segment = *std::move(opened);
      } else if (opened.status().code() == StatusCode::kNotFound) {
        if (must_exist) failure = Unavailable("ended: ", arena_name, " is gone from /dev/shm");
      } else if (opened.status().code() != StatusCode::kFailedPrecondition) {
        failure = opened.status();
      }
    }
    // What is initialised by this very process has a LocalArena, found in the next round.
    return segment != nullptr && Directory(segment->data()).IsReady() &&
           Directory(segment->data()).process() != ProcessToken();
  };
  const auto is_cancelled = [&] {
    return cancelled != nullptr && cancelled->load(std::memory_order_acquire);
  };
  const auto is_over = [&] { return came() || !failure.ok() || is_cancelled(); };
  while (!Poll(is_over, deadline.Earlier(Deadline::After(kLookAfter)))) {
    if (deadline.Expired()) {
      return DeadlineExceeded(arena_name, " did not appear in /dev/shm, or is not in use");
    }
    if (segment != nullptr && !segment->OwnerLives()) {
      return Unavailable("ended: no process holds ", arena_name, " any more");
    }
  }
  LOCKSTEP_RETURN_IF_ERROR(failure);
  if (home != nullptr) return Peer(std::move(home));
  if (segment != nullptr && !is_cancelled()) return Peer(std::move(segment));
  return Aborted("connecting the ranks was cancelled");
}

bool Peer::IsAlive() const { return segment_ == nullptr || segment_->OwnerLives(); }

std::vector<Rank> Options::Members() const {
  if (!members.empty()) return members;
  std::vector<Rank> all(arena_names.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

StatusOr<std::shared_ptr<ShmWorld>> ShmWorld::Connect(const Options& options,
                                                      const std::atomic<bool>* cancelled,
                                                      Deadline deadline) {
  std::shared_ptr<LocalArena> home = LocalArena::Of(options.arena);
  std::map<Rank, Peer> peers;
  std::vector<Rank> missing;
  for (const Rank r : options.Members()) {
    if (r == options.rank) {
      peers.emplace(r, home);
      continue;
    }
    StatusOr<Peer> peer = Peer::Map(options.arena_names[static_cast<size_t>(r)],
                                    options.arenas_exist, cancelled, deadline);
    if (peer.ok()) {
      peers.emplace(r, *std::move(peer));
    } else if (peer.status().code() == StatusCode::kDeadlineExceeded) {
      missing.push_back(r);  // the others are still looked for, once, so that all are named
    } else {
      return Annotate(peer.status(), ListRanks({r}));
    }
  }
  if (!missing.empty()) {
    return DeadlineExceeded("the shared memory of ", ListRanks(missing),
                            " did not appear in /dev/shm in time");
  }
  return std::shared_ptr<ShmWorld>(new ShmWorld(std::move(home), std::move(peers), options.wait));
}

}  // namespace lockstep::collective::shm
