#include "services/controller/common/membership.h"

#include <algorithm>
#include <utility>

#include "runtime/base/host_identity.h"
#include "runtime/base/rank_text.h"
#include "runtime/base/version.h"
#include "runtime/control/replacement_advice.h"
#include "runtime/control/value_codec.h"

namespace lockstep::controller {

using control::ToString;

namespace {

constexpr char kReplacementGone[] = "; the worker that was to replace it (";

Inventory ReadInventory(wire::Resume::Reader resume) {
  Inventory inventory;
  inventory.controller = Epoch(resume.getController());
  inventory.epoch = Epoch(resume.getEpoch());
  inventory.worked_epoch = Epoch(resume.getWorkedEpoch());
  inventory.world_size = static_cast<int>(resume.getWorldSize());
  for (auto session : resume.getSessions()) {
    inventory.sessions.push_back(control::ReadSessionRecord(session));
  }
  return inventory;
}

}  // namespace

Candidate ReadCandidate(wire::Hello::Reader hello) {
  Candidate candidate;
  candidate.min_version = hello.getMinVersion();
  candidate.max_version = hello.getMaxVersion();
  candidate.build = ToString(hello.getBuild());
  candidate.cluster = ToString(hello.getCluster());
  candidate.wanted_rank = std::max(hello.getRank(), -1);
  candidate.first_rank = hello.getRank() < 0 ? -1 - hello.getRank() : 0;
  candidate.host = ToString(hello.getHost().getName());
  candidate.host_id = ToString(hello.getHost().getId());
  candidate.pid = hello.getPid();
  candidate.device = ToString(hello.getDevice());
  candidate.segment = ToString(hello.getSegment());
  candidate.activity_segment = ToString(hello.getActivitySegment());
  candidate.bulk_endpoint = ToString(hello.getBulkEndpoint());
  candidate.bulk_key = ToString(hello.getBulkKey());
  candidate.metrics_endpoint = ToString(hello.getMetricsEndpoint());
  candidate.relays = hello.getRelays();
  if (hello.hasResume()) candidate.inventory = ReadInventory(hello.getResume());
  return candidate;
}

Status Membership::Check(const Candidate& candidate) const {
  if (candidate.min_version > kProtocolVersion ||
      candidate.max_version < kOldestWorkerProtocolVersion) {
    return FailedPrecondition("worker ", ProcessLabel(candidate.host, candidate.pid), " (Lockstep ",
                              candidate.build, ") speaks protocol versions ", candidate.min_version,
                              " to ", candidate.max_version, ", this controller (Lockstep ",
                              kBuildVersion, ") ", kOldestWorkerProtocolVersion, " to ",
                              kProtocolVersion, "; install the same release on both");
  }
  if (!candidate.cluster.empty() && candidate.cluster != cluster_) {
    return FailedPrecondition("this is cluster \"", cluster_, "\", the worker wants to join \"",
                              candidate.cluster, "\"; check its controller endpoint");
  }
  const Rank least = std::max(candidate.wanted_rank, candidate.first_rank);
  if (least >= size()) {
    return OutOfRange("rank ", least, " does not exist: cluster \"", cluster_, "\" has ", size(),
                      " workers, ranks 0 to ", size() - 1);
  }
  return OkStatus();
}

StatusOr<Rank> Membership::Admit(const control::PeerName& peer, const Candidate& candidate) {
  LOCKSTEP_RETURN_IF_ERROR(Check(candidate));
  if (FindPeer(peer) >= 0) {
    return AlreadyExists("the worker has joined before, as rank ", FindPeer(peer));
  }
  Rank rank = candidate.wanted_rank;
  if (rank >= 0) {
    if (!IsFree(member(rank))) {
      return AlreadyExists("rank ", rank, " is taken by ", Label(rank));
    }
  } else {
    rank = LowestFree(candidate.first_rank);
    if (rank < 0 && LowestFree(0) >= 0) {
      return ResourceExhausted("all ranks from ", candidate.first_rank,
                               " on have joined cluster \"", cluster_, "\"");
    }
    if (rank < 0) {
      return ResourceExhausted("cluster \"", cluster_, "\" is complete: all ", size(),
                               " ranks have joined");
    }
  }
  Member& joined = members_[static_cast<size_t>(rank)];
  ranks_.erase(joined.peer);
  joined.state = State::kWaiting;
  joined.peer = peer;
  joined.facts = candidate;
  joined.connection.clear();
  ranks_[peer] = rank;
  return rank;
}

bool Membership::IsFree(const Member& member) {
  return member.state == State::kMissing || member.state == State::kLost;
}

Rank Membership::LowestFree(Rank first) const {
  Rank rank = first;
  while (rank < size() && !IsFree(member(rank))) ++rank;
  return rank < size() ? rank : -1;
}

bool Membership::AllPresent() const { return LowestFree(0) < 0; }

bool Membership::IsWelcome(Rank rank) const {
  const State state = member(rank).state;
  return state == State::kJoining || state == State::kReady;
}

void Membership::WelcomeAll() {
  for (Member& m : members_) {
    m.state = State::kJoining;
    m.lost_because.clear();
    m.may_live = false;
    m.facts.inventory.reset();
  }
  UpdatePeers();
}

bool Membership::AllReady() const {
  return std::all_of(members_.begin(), members_.end(),
                     [](const Member& m) { return m.state == State::kReady; });
}

void Membership::MarkReady(Rank rank, const std::string& backend, const std::string& connection) {
  Member& ready = members_[static_cast<size_t>(rank)];
  if (ready.state != State::kJoining) return;
  ready.state = State::kReady;
  ready.backend = backend;
  ready.connection = connection;
}

void Membership::NoteTrouble(Rank rank, const std::string& trouble) {
  Member& member = members_[static_cast<size_t>(rank)];
  if (member.state == State::kJoining) member.connection = trouble;
}

void Membership::NoteOutOfReach(Rank rank, const std::string& why) {
  if (rank < 0) return;
  Member& member = members_[static_cast<size_t>(rank)];
  if (member.state == State::kMissing) member.connection = why;
}

void Membership::MarkLost(Rank rank, const std::string& reason, bool may_live) {
  Member& lost = members_[static_cast<size_t>(rank)];
  lost.state = State::kLost;
  lost.lost_because = reason;
  lost.lost_facts = lost.facts;
  lost.may_live = may_live;
  UpdatePeers();
}

void Membership::Free(Rank rank, const std::string& reason) {
  Member& gone = members_[static_cast<size_t>(rank)];
  ranks_.erase(gone.peer);
  if (!gone.lost_because.empty()) {
    // Only the last of those that came and went is told.
    const std::string first = gone.lost_because.substr(0, gone.lost_because.find(kReplacementGone));
    const std::string both = first + kReplacementGone + Label(rank) + ") is gone, too: " + reason;
    gone.facts = gone.lost_facts;
    return MarkLost(rank, both, gone.may_live);
  }
  gone = Member();
}

void Membership::UpdatePeers() {
  std::vector<control::PeerName> welcome;
  for (Rank rank = 0; rank < size(); ++rank) {
    if (IsWelcome(rank)) welcome.push_back(member(rank).peer);
  }
  peers_ = std::make_shared<const std::vector<control::PeerName>>(std::move(welcome));
}

std::vector<control::PeerName> Membership::PeersAndCandidates() const {
  std::vector<control::PeerName> all = peers();
  for (const Member& m : members_) {
    if (m.state == State::kWaiting) all.push_back(m.peer);
  }
  return all;
}

Rank Membership::FindPeer(const control::PeerName& peer) const {
  const auto found = ranks_.find(peer);
  return found == ranks_.end() ? -1 : found->second;
}

std::string Membership::Label(Rank rank) const {
  return ProcessLabel(member(rank).facts.host, member(rank).facts.pid);
}

std::string Membership::Replacement(Rank rank) const {
  if (member(rank).may_live) return "; " + Ending(rank);
  const std::string how = HowToReplace(replacement_hint_, {rank});
  return how.empty() ? "" : "; " + how;
}

std::string Membership::Ending(Rank rank) const {
  const Member& m = member(rank);
  return HowToEnd(replacement_hint_, {{rank, m.facts.host, m.facts.pid, m.may_live}});
}

Status Membership::Whole() const {
  // Ranks of which there is the same to say, in a row: "0-2", "3, 4 (joining)".
  struct Missing {
    std::string what;
    std::vector<Rank> ranks;
  };
  std::vector<Missing> missing;
  int ready = 0;
  for (Rank rank = 0; rank < size(); ++rank) {
    const Member& m = member(rank);
    if (m.state == State::kLost) {
      return Unavailable("worker rank ", rank, " (", Label(rank), ") is lost: ", m.lost_because,
                         Replacement(rank));
    }
    if (m.state == State::kReady) {
      ++ready;
      continue;
    }
    const std::string what = m.state != State::kMissing ? " (joining)"
                             : !m.connection.empty()    ? " (" + m.connection + ")"
                                                        : "";
    if (missing.empty() || missing.back().what != what) missing.push_back({what, {}});
    missing.back().ranks.push_back(rank);
  }
  if (missing.empty()) return OkStatus();
  std::string text;
  for (const Missing& part : missing) {
    text += (text.empty() ? "" : ", ") + RankRanges(part.ranks) + part.what;
  }
  return Unavailable(ready, " of ", size(), " workers are ready; waiting for ",
                     size() - ready == 1 ? "rank " : "ranks ", text);
}

void WritePeer(wire::Peer::Builder builder, Rank rank, const Membership::Member& member) {
  builder.setRank(rank);
  auto host = builder.initHost();
  host.setName(member.facts.host);
  host.setId(member.facts.host_id);
  builder.setPid(member.facts.pid);
  builder.setDevice(member.facts.device);
  builder.setSegment(member.facts.segment);
  builder.setBulkEndpoint(member.facts.bulk_endpoint);
  builder.setBulkKey(member.facts.bulk_key);
  builder.setMetricsEndpoint(member.facts.metrics_endpoint);
}

void WritePeers(capnp::List<wire::Peer>::Builder builders, const Membership& membership) {
  for (Rank rank = 0; rank < membership.size(); ++rank) {
    WritePeer(builders[static_cast<unsigned>(rank)], rank, membership.member(rank));
  }
}

}  // namespace lockstep::controller
