#include "runtime/plan/lowering/teams.h"

#include <algorithm>

namespace lockstep::plan {
namespace {

constexpr Rank kNotThere = -1;

// The ranks that a round connects with each other, each team ascending: what others do at the same
// time is not waited for.
std::vector<Team> TeamsOfRound(const std::vector<Piece>& round) {
  Rank last = kNotThere;
  for (const Piece& piece : round) last = std::max({last, piece.from, piece.to});
  const auto size = static_cast<size_t>(last + 1);
  // Of each rank one that it is connected with, and at the end of that chain the lowest.
  std::vector<Rank> leaders(size, kNotThere);
  const auto at = [&](Rank member) -> Rank& { return leaders[static_cast<size_t>(member)]; };
  const auto leader_of = [&](Rank member) {
    if (at(member) == kNotThere) at(member) = member;
    Rank leader = member;
    while (at(leader) != leader) leader = at(leader);
    return at(member) = leader;
  };
  for (const Piece& piece : round) {
    const Rank a = leader_of(piece.from);
    const Rank b = leader_of(piece.to);
    at(std::max(a, b)) = std::min(a, b);
  }
  std::vector<Team> by_leader(size);
  for (Rank member = 0; member <= last; ++member) {
    if (at(member) != kNotThere)
      by_leader[static_cast<size_t>(leader_of(member))].push_back(member);
  }
  std::erase_if(by_leader, [](const Team& team) { return team.empty(); });
  return by_leader;
}

// The slices of a mesh along axes, by ranks.
std::vector<Team> SlicesOf(const Mesh& mesh, const std::vector<int>& axes) {
  std::vector<Team> teams;
  for (const std::vector<int>& slice : mesh.Slices(axes)) {
    Team& team = teams.emplace_back();
    for (int member : slice) team.push_back(mesh.RankAt(member));
  }
  return teams;
}

}  // namespace

Teams::Teams(std::vector<Team> teams) : teams_(std::move(teams)) {
  for (size_t i = 0; i < teams_.size(); ++i) {
    for (const Rank member : teams_[i]) by_rank_.emplace_back(member, i);
  }
  std::sort(by_rank_.begin(), by_rank_.end());
}

const Team& Teams::With(Rank rank) const {
  static const auto* const kNone = new Team();
  const auto at = std::lower_bound(by_rank_.begin(), by_rank_.end(), std::pair(rank, size_t{0}));
  return at != by_rank_.end() && at->first == rank ? teams_[at->second] : *kNone;
}

size_t CountCollectives(const Move& move) {
  switch (move.kind) {
    case Move::Kind::kMakePartial:
      return 0;
    case Move::Kind::kExchange:
      return move.exchange->rounds.size();
    case Move::Kind::kCombine:
      return 1 + move.combination->exchange.rounds.size();
    default:
      return 1;
  }
}

std::vector<std::shared_ptr<const Teams>> TeamsOf(const Layout& from,
                                                  const std::vector<Move>& moves) {
  std::vector<std::shared_ptr<const Teams>> all;
  const auto add = [&](std::vector<Team> teams) {
    all.push_back(std::make_shared<const Teams>(std::move(teams)));
  };
  const Layout* before = &from;
  for (const Move& move : moves) {
    switch (move.kind) {
      case Move::Kind::kExchange:
        for (const std::vector<Piece>& round : move.exchange->rounds) add(TeamsOfRound(round));
        break;
      case Move::Kind::kCombine: {
        std::vector<Team> combining;
        for (const CombiningTeam& team : move.combination->teams) combining.push_back(team.ranks);
        add(std::move(combining));
        for (const auto& round : move.combination->exchange.rounds) add(TeamsOfRound(round));
        break;
      }
      case Move::Kind::kAllGather:
        add(SlicesOf(before->mesh(), move.axes));
        break;
      case Move::Kind::kReduceScatter:
      case Move::Kind::kAllReduce:
        add(SlicesOf(move.to.mesh(), move.axes));
        break;
      case Move::Kind::kMakePartial:
        break;
    }
    before = &move.to;
  }
  return all;
}

}  // namespace lockstep::plan
