#include "runtime/collective/shm/shm.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <utility>

#include "runtime/collective/shm/call.h"
#include "runtime/collective/shm/shm_communicator.h"
#include "runtime/collective/shm/team.h"
#include "runtime/collective/shm/world.h"

namespace lockstep::collective::shm {
namespace {

constexpr char kDirectory[] = "/dev/shm";

Status Check(const Options& options) {
  const int size = static_cast<int>(options.arena_names.size());
  if (options.rank < 0 || options.rank >= size) {
    return InvalidArgument("rank ", options.rank, " is not one of the ", size,
                           " ranks whose arenas are named");
  }
  if (options.arena == nullptr) return InvalidArgument("rank ", options.rank, " has no arena");
  const std::string& own = options.arena_names[static_cast<size_t>(options.rank)];
  if (own != options.arena->name()) {
    return InvalidArgument("the arena of rank ", options.rank, " is ", options.arena->name(),
                           ", but the list of arenas says ", own);
  }
  std::vector<std::string> sorted = options.arena_names;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) return InvalidArgument("two ranks have the arena ", *twice);
  return OkStatus();
}

}  // namespace

Status Available() {
  if (access(kDirectory, R_OK | W_OK | X_OK) != 0) {
    return Unavailable("shared memory cannot be used: ", kDirectory, ": ", std::strerror(errno));
  }
  struct statvfs info {};
  if (statvfs(kDirectory, &info) != 0) {
    return Unavailable("shared memory cannot be used: ", kDirectory, ": ", std::strerror(errno));
  }
  // What an arena sets aside at first; less would fail at once.
  constexpr unsigned long kLeastBytes = 5ul << 20;
  const unsigned long free_bytes = info.f_bavail * info.f_frsize;
  if (free_bytes < kLeastBytes) {
    return Unavailable("shared memory cannot be used: ", kDirectory, " has only ", free_bytes,
                       " bytes left");
  }
  return OkStatus();
}

StatusOr<std::unique_ptr<Communicator>> Connect(const Options& options, Deadline deadline,
                                                const std::atomic<bool>* cancelled) {
  LOCKSTEP_RETURN_IF_ERROR(Check(options));
  LOCKSTEP_ASSIGN_OR_RETURN(auto world, World::Connect(options, cancelled, deadline));
  std::vector<Rank> members(options.arena_names.size());
  std::iota(members.begin(), members.end(), 0);
  const uint64_t key = std::max<uint64_t>(Mix(Mix(0, options.world), members.size()), 1);
  LOCKSTEP_ASSIGN_OR_RETURN(auto team, Team::Open(std::move(world), key, std::move(members),
                                                  options.rank, nullptr, cancelled, deadline));
  return std::make_unique<ShmCommunicator>(std::move(team));
}

}  // namespace lockstep::collective::shm
