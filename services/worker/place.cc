#include "services/worker/place.h"

#include <algorithm>

#include "runtime/base/host_identity.h"
#include "runtime/control/session_record.h"
#include "runtime/control/value_codec.h"

namespace lockstep::worker {

using std::chrono::milliseconds;

StatusOr<Place> ReadWelcome(Epoch epoch, wire::Welcome::Reader welcome) {
  Place place;
  place.rank = welcome.getRank();
  place.epoch = epoch;
  place.controller = Epoch(welcome.getController());
  place.cluster = control::ToString(welcome.getCluster());
  for (auto peer : welcome.getPeers()) {
    place.segments.push_back(control::ToString(peer.getSegment()));
  }
  place.liveness_endpoint = control::ToString(welcome.getLivenessEndpoint());
  place.watch = welcome.getWatch();
  // Cut to what clocks can count; and never all the time.
  place.heartbeat_interval =
      std::max(control::Millis(welcome.getHeartbeatMillis()), milliseconds(1));
  place.collective_timeout = control::Millis(welcome.getCollectiveTimeoutMillis());
  place.flow_window_bytes = welcome.getFlowWindowBytes();
  place.sequence = welcome.getSequence();
  place.forget = welcome.getForget();
  place.controller_is_here =
      control::ToString(welcome.getControllerHost().getId()) == ThisHost().id;
  place.communicator = control::ToString(welcome.getCommunicator());
  for (auto session : welcome.getSessions()) {
    place.sessions.push_back(control::ReadSessionRecord(session));
  }
  if (place.rank < 0 || place.rank >= place.world_size()) {
    return Internal("the controller gave rank ", place.rank, " of ", place.world_size());
  }
  return place;
}

}  // namespace lockstep::worker
