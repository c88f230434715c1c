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

// The first that is available.
StatusOr<const Backend*> Choose() {
  std::string lacking;
  for (const Backend& backend : kBackends) {
    const Status available = backend.available();
    if (available.ok()) return &backend;
    lacking += std::string("; ") + backend.name + ": " + Message(available);
  }
  return Unavailable("no backend can connect the ranks", lacking);
}

}  // namespace

Status AnyBackendAvailable() { return Choose().status(); }

Connected ConnectWorld(const Place& place, const std::shared_ptr<tensor::Arena>& arena,
                       const std::atomic<bool>& cancelled, Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Backend* const backend, Choose());
  return backend->connect(place, arena, cancelled, deadline);
}

}  // namespace lockstep::worker
