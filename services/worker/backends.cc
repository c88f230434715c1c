#include "services/worker/backends.h"

#include "runtime/collective/shm/shm.h"

namespace lockstep::worker {
namespace {

using Connected = StatusOr<std::unique_ptr<collective::Communicator>>;

struct Backend {
  const char* name;
  // OK if this machine has what the backend needs, else what is missing.
  Status (*available)();
  Connected (*connect)(const Place& place, const std::shared_ptr<tensor::Arena>& arena,
                       const std::atomic<bool>& cancelled, Deadline deadline);
};

Connected ConnectShm(const Place& place, const std::shared_ptr<tensor::Arena>& arena,
                     const std::atomic<bool>& cancelled, Deadline deadline) {
  collective::shm::Options options;
  options.rank = place.rank;
  options.arena = arena;
  options.arena_names = place.segments;
  options.world = place.epoch.value;
  // Workers make their arenas before they ask to join.
  options.arenas_exist = true;
  return collective::shm::Connect(options, deadline, &cancelled);
}

constexpr Backend kBackends[] = {
    {"shm", collective::shm::Available, ConnectShm},
};

}  // namespace

Connected ConnectWorld(const Place& place, const std::shared_ptr<tensor::Arena>& arena,
                       const std::atomic<bool>& cancelled, Deadline deadline) {
  std::string lacking;
  for (const Backend& backend : kBackends) {
    const Status available = backend.available();
    if (available.ok()) return backend.connect(place, arena, cancelled, deadline);
    lacking += std::string("; ") + backend.name + ": " + Message(available);
  }
  return Unavailable("no backend can connect the ranks", lacking);
}

}  // namespace lockstep::worker
