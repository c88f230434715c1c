#include "runtime/collective/shm/shm.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/collective/call.h"
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
  std::vector<Rank> members = options.members;
  std::sort(members.begin(), members.end());
  if (!members.empty() && (members.front() < 0 || members.back() >= size ||
                           std::adjacent_find(members.begin(), members.end()) != members.end() ||
                           !std::binary_search(members.begin(), members.end(), options.rank))) {
    return InvalidArgument("the members are no list of different ranks of ", size, " with rank ",
                           options.rank, " among them");
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

Status TryToReach(const std::string& arena_name) {
  if (arena_name.empty()) return Unavailable("it has no shared memory");
  if (Home::Find(arena_name) != nullptr) return OkStatus();
  return SharedSegment::Open(arena_name).status();
}

StatusOr<std::unique_ptr<Communicator>> Connect(const Options& options, Deadline deadline,
                                                const std::atomic<bool>* cancelled) {
  LOCKSTEP_RETURN_IF_ERROR(Check(options));
  LOCKSTEP_ASSIGN_OR_RETURN(auto world, World::Connect(options, cancelled, deadline));
  std::vector<Rank> members = options.Members();
  uint64_t key = Mix(Mix(0, options.world), members.size());
  for (const Rank member : members) key = Mix(key, static_cast<uint64_t>(member));
  const auto self = std::find(members.begin(), members.end(), options.rank) - members.begin();
  LOCKSTEP_ASSIGN_OR_RETURN(
      auto team, Team::Open(std::move(world), std::max<uint64_t>(key, 1), std::move(members),
                            static_cast<int>(self), nullptr, cancelled, deadline));
  return std::make_unique<ShmCommunicator>(std::move(team));
}

}  // namespace lockstep::collective::shm
