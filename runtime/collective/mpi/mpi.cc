#include "runtime/collective/mpi/mpi.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "runtime/base/rank_text.h"
#include "runtime/collective/call.h"
#include "runtime/collective/mpi/job.h"
#include "runtime/collective/mpi/launcher.h"
#include "runtime/collective/mpi/library.h"
#include "runtime/collective/mpi/mpi_transport.h"

namespace lockstep::collective::mpi {
namespace {

// Names the exchange before MPI begins, apart from others' keys.
constexpr uint64_t kObstacles = 0x6f62737461636c65;

// Why this process cannot be in a world of `size` ranks; empty: nothing is known against it.
std::string ObstacleHere(int size) {
  const Status available = Available();
  if (!available.ok()) return Message(available);
  const std::optional<int> job_size = JobSize();
  if (!job_size.has_value() || *job_size == size) return "";
  return "their MPI job has " + std::to_string(*job_size) + " processes, and the cluster " +
         std::to_string(size) + " workers: start all workers, and nothing else, with one mpirun";
}

// MPI waits for all processes of a job to begin, so no rank begins before it is known that all
// will.
Status ShareObstacles(const Options& options, const message::Team& world,
                      const std::atomic<bool>* cancelled, Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::vector<std::string> obstacles,
      options.rendezvous->Exchange(Mix(world.key, kObstacles), world.members,
                                   {ObstacleHere(options.size)}, cancelled, deadline));
  // Those that say the same together.
  std::vector<std::string> said;
  for (const std::string& obstacle : obstacles) {
    if (obstacle.empty()) continue;
    std::vector<Rank> ranks;
    for (size_t r = 0; r < obstacles.size(); ++r) {
      if (obstacles[r] == obstacle) ranks.push_back(static_cast<Rank>(r));
    }
    const std::string words = ListRanks(ranks) + ": " + obstacle;
    if (std::find(said.begin(), said.end(), words) == said.end()) said.push_back(words);
  }
  if (said.empty()) return OkStatus();
  return FailedPrecondition("the ranks cannot be connected by mpi: ", absl::StrJoin(said, "; "));
}

}  // namespace

Status Available() {
  LOCKSTEP_RETURN_IF_ERROR(LoadLibrary().status());
  return CheckStartedByLauncher();
}

StatusOr<std::unique_ptr<message::MessageCommunicator>> Connect(
    const Options& options, Deadline deadline, const std::atomic<bool>* cancelled) {
  if (options.rank < 0 || options.rank >= options.size) {
    return InvalidArgument("there is no rank ", options.rank, " of ", options.size);
  }
  if (options.rendezvous == nullptr) return InvalidArgument("the ranks have no rendezvous");
  const auto world = message::Team::OfWorld(options.world, options.size, options.rank);
  LOCKSTEP_RETURN_IF_ERROR(ShareObstacles(options, world, cancelled, deadline));
  LOCKSTEP_ASSIGN_OR_RETURN(Job* const job, Job::Enter(cancelled, deadline));
  LOCKSTEP_ASSIGN_OR_RETURN(
      auto transport, MpiTransport::Connect(*job, options.rendezvous, world, cancelled, deadline));
  return std::make_unique<message::MessageCommunicator>(std::move(transport), world.members);
}

Status LeaveJob(Deadline deadline) { return Job::Leave(deadline); }

}  // namespace lockstep::collective::mpi
