#include "services/worker/join/membership.h"

#include <algorithm>

#include "runtime/base/host_identity.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/session_record.h"
#include "runtime/control/tree/tree_offer_codec.h"
#include "runtime/control/value_codec.h"

namespace lockstep::worker {

using std::chrono::milliseconds;

StatusOr<Membership> ReadWelcome(Epoch epoch, wire::Welcome::Reader welcome,
                                 const control::Frame& arenas) {
  Membership membership;
  membership.rank = welcome.getRank();
  membership.epoch = epoch;
  membership.controller = Epoch(welcome.getController());
  membership.cluster = control::ToString(welcome.getCluster());
  LOCKSTEP_RETURN_IF_ERROR(
      control::DecodeMessage<wire::Arenas>(arenas, [&](wire::Arenas::Reader reader) {
        for (const auto segment : reader.getSegments()) {
          membership.segments.push_back(control::ToString(segment));
        }
        return OkStatus();
      }));
  membership.liveness_endpoint = control::ToString(welcome.getLivenessEndpoint());
  membership.client_endpoint = control::ToString(welcome.getClientEndpoint());
  membership.watch = welcome.getWatch();
  // Cut to what clocks can count; and never all the time.
  membership.heartbeat_interval =
      std::max(control::Millis(welcome.getHeartbeatMillis()), milliseconds(1));
  membership.collective_timeout = control::Millis(welcome.getCollectiveTimeoutMillis());
  membership.flow_window_bytes = welcome.getFlowWindowBytes();
  membership.sequence = welcome.getSequence();
  membership.forget = welcome.getForget();
  membership.controller_is_here =
      control::ToString(welcome.getControllerHost().getId()) == ThisHost().id;
  membership.ring = {control::ToString(welcome.getRingAddress()),
                     control::ToString(welcome.getRingNonce())};
  if (welcome.hasRelayTree()) membership.tree = control::ReadTreeOffer(welcome.getRelayTree());
  membership.communicator = control::ToString(welcome.getCommunicator());
  for (auto session : welcome.getSessions()) {
    membership.sessions.push_back(control::ReadSessionRecord(session));
  }
  if (membership.rank < 0 || membership.rank >= membership.world_size()) {
    return Internal("the controller gave rank ", membership.rank, " of ", membership.world_size());
  }
  return membership;
}

}  // namespace lockstep::worker
