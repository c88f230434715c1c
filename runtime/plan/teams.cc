#include "runtime/plan/teams.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lockstep::plan {
namespace {

// The ranks that a round connects with each other, each team ascending: what others do at the same
// time is not waited for.
std::vector<Team> TeamsOfRound(const std::vector<Piece>& round) {
  std::map<Rank, Rank> leaders;
  const auto leader_of = [&](Rank member) {
    Rank at = leaders.try_emplace(member, member).first->second;
    while (leaders[at] != at) at = leaders[at];
    return leaders[member] = at;
  };
  for (const Piece& piece : round) {
    const Rank a = leader_of(piece.from);
    const Rank b = leader_of(piece.to);
    leaders[std::max(a, b)] = std::min(a, b);
  }
  std::map<Rank, Team> teams;
  for (const auto& [member, unused] : leaders) teams[leader_of(member)].push_back(member);
  std::vector<Team> all;
  for (auto& [leader, team] : teams) all.push_back(std::move(team));
  return all;
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

std::vector<std::vector<Team>> TeamsOfMove(const Move& move, const Layout& before) {
  std::vector<std::vector<Team>> teams;
  switch (move.kind) {
    case Move::Kind::kExchange:
      for (const std::vector<Piece>& round : move.exchange->rounds) {
        teams.push_back(TeamsOfRound(round));
      }
      return teams;
    case Move::Kind::kAllGather:
      return {SlicesOf(before.mesh(), move.axes)};
    case Move::Kind::kReduceScatter:
    case Move::Kind::kAllReduce:
      return {SlicesOf(move.to.mesh(), move.axes)};
    case Move::Kind::kMakePartial:
      break;
  }
  return teams;
}

std::vector<std::vector<Team>> TeamsOf(const Reshard& reshard) {
  std::vector<std::vector<Team>> all;
  const Layout* before = &reshard.from;
  for (const Move& move : reshard.moves) {
    for (std::vector<Team>& teams : TeamsOfMove(move, *before)) all.push_back(std::move(teams));
    before = &move.to;
  }
  return all;
}

Team TeamWith(const std::vector<Team>& teams, Rank rank) {
  for (const Team& team : teams) {
    if (std::find(team.begin(), team.end(), rank) != team.end()) return team;
  }
  return {};
}

}  // namespace lockstep::plan
