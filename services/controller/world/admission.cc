#include "services/controller/world/admission.h"

#include <chrono>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/host_identity.h"
#include "runtime/base/log.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/message_codec.h"
#include "schemas/control.capnp.h"

namespace lockstep::controller {

void Admission::HandleHello(const control::PeerName& peer, wire::Hello::Reader hello) {
  const Candidate candidate = ReadCandidate(hello);
  // Said again while it waits, as a sign of life.
  const Rank known = membership_.FindPeer(peer);
  // Its welcome is on its way, or has come; if that was lost, so is the worker, for want of
  // heartbeats. One that comes back does so by another connection. A member that wants another rank
  // is not answered: what is for one member alone ends the tree in which others pass commands on.
  if (known >= 0 && membership_.IsWelcome(known)) return;
  if (known >= 0 && membership_.member(known).facts.wanted_rank == candidate.wanted_rank) {
    if (membership_.member(known).state == Membership::State::kWaiting) {
      liveness_.NoteAlive(known);
      return TellToWait(peer);
    }
    // It was silent for too long, but lives: it may ask like any other.
    membership_.ForgetName(peer);
  }
  Consider(peer, candidate);
}

void Admission::Consider(const control::PeerName& peer, const Candidate& candidate) {
  // The worker that has the rank may have been killed a moment ago, and must not push others to
  // ranks that other workers will ask for; nor let one become rank 0 that was not tried because
  // that rank seemed to be taken.
  world_.NoticeLosses();
  if (!IsReached(peer, candidate)) return;
  being_reached_.erase(peer);
  if (HasTheRank(candidate)) {
    // It has dropped what was sent to it meanwhile, so it comes back like any other.
    world_.ComesBack(candidate.wanted_rank,
                     "it had heard nothing of the controller for too long, and comes back");
  }
  MakeWayFor(candidate);
  if (MayGetARankSoon(peer, candidate)) return TellToWait(peer);
  const StatusOr<Rank> rank = membership_.Admit(peer, candidate);
  if (!rank.ok()) {
    log::Warn("worker ", ProcessLabel(candidate.host, candidate.pid),
              " is refused: ", Message(rank.status()));
    return Refuse(peer, rank.status());
  }
  log::Info(log::OfRank(*rank), "worker is ", ProcessLabel(candidate.host, candidate.pid), " on ",
            candidate.device);
  membership_.SetWatch(
      *rank, liveness_.Watch(*rank, candidate.host_id, candidate.pid, candidate.activity_segment));
  if (!membership_.AllPresent()) return TellToWait(peer);
  // None is welcomed into a world that is broken already.
  world_.NoticeLosses();
  world_.StartIfComplete();
}

bool Admission::IsReached(const control::PeerName& peer, const Candidate& candidate) {
  // One that is refused anyway is refused for that; and clients copy to and from rank 0 alone.
  const bool takes_any = candidate.wanted_rank < 0 && candidate.first_rank == 0;
  const bool may_be_first =
      candidate.wanted_rank == 0 || (takes_any && membership_.LowestFree(0) == 0);
  if (!membership_.Check(candidate).ok() || !may_be_first) return true;
  const std::optional<Status> reached = reachability_.Ask(candidate.bulk_endpoint);
  if (!reached.has_value()) {
    being_reached_.insert_or_assign(peer, candidate);
    return false;
  }
  if (reached->ok()) return true;
  const std::string why =
      "the controller cannot connect to worker " + ProcessLabel(candidate.host, candidate.pid) +
      ": " + Message(*reached) +
      "; open that port, or set data_address, bulk_endpoint or advertise_address";
  log::Warn(why);
  membership_.NoteOutOfReach(candidate.wanted_rank, why);
  outbox_.ToWorker(peer, control::EncodeMessage<wire::Envelope>([&](wire::Envelope::Builder e) {
                     e.setEpoch(membership_.epoch().value);
                     e.setOutOfReach(why);
                   }));
  return false;
}

void Admission::HandleReachResults() {
  for (const auto& [peer, candidate] : std::exchange(being_reached_, {})) {
    // It may have come by another hello meanwhile.
    if (membership_.FindPeer(peer) < 0) Consider(peer, candidate);
  }
}

void Admission::TellToWait(const control::PeerName& peer) {
  outbox_.ToWorker(peer, control::EncodeMessage<wire::Envelope>([&](wire::Envelope::Builder e) {
                     e.setEpoch(membership_.epoch().value);
                     e.setWaiting();
                   }));
}

void Admission::Refuse(const control::PeerName& peer, const Status& why) {
  outbox_.ToWorker(peer, control::EncodeMessage<wire::Envelope>([&](wire::Envelope::Builder e) {
                     e.setEpoch(membership_.epoch().value);
                     control::WriteError(e.initRefused().initError(), control::ErrorOf(why));
                   }));
}

void Admission::MakeWayFor(const Candidate& candidate) {
  const Rank rank = candidate.wanted_rank;
  const bool keeps = candidate.inventory.has_value() &&
                     candidate.inventory->world_size == membership_.size() &&
                     membership_.Check(candidate).ok();
  if (!keeps || rank < 0 || membership_.member(rank).state != Membership::State::kWaiting) return;
  const Membership::Member member = membership_.member(rank);
  const auto& theirs = member.facts.inventory;
  if (theirs.has_value() && theirs->epoch >= candidate.inventory->epoch) return;
  const Status why =
      AlreadyExists("rank ", rank, " was given to ", ProcessLabel(candidate.host, candidate.pid),
                    ", which has kept more of it");
  // One that takes any rank asks again, and gets another.
  if (member.facts.wanted_rank >= 0) Refuse(member.peer, why);
  world_.FreeRank(rank, Message(why));
}

bool Admission::HasTheRank(const Candidate& candidate) const {
  const Rank rank = candidate.wanted_rank;
  if (!candidate.inventory.has_value() || rank < 0 || rank >= membership_.size()) return false;
  const Membership::Member& member = membership_.member(rank);
  return membership_.IsWelcome(rank) && member.facts.host_id == candidate.host_id &&
         member.facts.pid == candidate.pid && member.facts.segment == candidate.segment;
}

// A worker of another host that has ended is silent for a while before it is lost; one that comes
// in its place is not refused for that.
bool Admission::MayGetARankSoon(const control::PeerName& peer, const Candidate& candidate) {
  constexpr std::chrono::minutes kForgetAfter{1};
  const TimePoint now = tools_.clock.Now();
  for (auto it = asking_since_.begin(); it != asking_since_.end();) {
    it = now - it->second > kForgetAfter ? asking_since_.erase(it) : std::next(it);
  }
  const Rank wanted = candidate.wanted_rank;
  if (!membership_.Check(candidate).ok()) return false;
  const bool has_room = wanted < 0 ? membership_.LowestFree(candidate.first_rank) >= 0
                                   : !membership_.IsWelcome(wanted);
  if (has_room) return false;
  const auto since = asking_since_.try_emplace(peer, now).first->second;
  for (Rank rank = candidate.first_rank; rank < membership_.size(); ++rank) {
    if ((wanted >= 0 && rank != wanted) || !membership_.IsWelcome(rank)) continue;
    const LastHeard heard = liveness_.LastHeardOf(rank);
    // Of one on this host its end would be known.
    if (!heard.is_present && now - heard.heartbeat_age <= since) return true;
  }
  asking_since_.erase(peer);
  return false;
}

}  // namespace lockstep::controller
