#include "services/worker/topology.h"

#include <algorithm>
#include <numeric>
#include <sstream>

#include "runtime/collective/shm/shm.h"

namespace lockstep::worker {
namespace {

// Names the exchange in which ranks tell what they reach. Every other key is a hash.
constexpr uint64_t kReachKey = 0;
constexpr char kBetween = '\n';

std::string Join(const std::vector<std::string>& reasons) {
  std::string text;
  for (const std::string& reason : reasons) {
    std::string line = reason;
    std::replace(line.begin(), line.end(), kBetween, ' ');
    text += line + kBetween;
  }
  return text;
}

std::vector<std::string> Part(const std::string& text) {
  std::vector<std::string> reasons;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line, kBetween);) reasons.push_back(line);
  return reasons;
}

const std::string& At(const Reach& reach, Rank from, Rank to) {
  return reach[static_cast<size_t>(from)][static_cast<size_t>(to)];
}

}  // namespace

const std::vector<Rank>& Topology::NodeOf(Rank rank) const {
  return *std::find_if(nodes.begin(), nodes.end(), [&](const std::vector<Rank>& node) {
    return std::find(node.begin(), node.end(), rank) != node.end();
  });
}

Topology DrawTopology(const Reach& reach) {
  Topology topology;
  for (Rank rank = 0; rank < static_cast<Rank>(reach.size()); ++rank) {
    // The first thing that keeps the rank out of a node.
    const auto keeps_out = [&](const std::vector<Rank>& node) {
      for (const Rank member : node) {
        for (const auto& [from, to] : {std::pair(member, rank), std::pair(rank, member)}) {
          const std::string& reason = At(reach, from, to);
          if (reason.empty()) continue;
          return "rank " + std::to_string(from) + " cannot map the memory of rank " +
                 std::to_string(to) + ": " + reason;
        }
      }
      return std::string();
    };
    bool joined = false;
    for (std::vector<Rank>& node : topology.nodes) {
      const std::string reason = keeps_out(node);
      if (topology.why_apart.empty()) topology.why_apart = reason;
      if (!reason.empty()) continue;
      node.push_back(rank);
      joined = true;
      break;
    }
    if (!joined) topology.nodes.push_back({rank});
  }
  if (topology.nodes.size() == 1) topology.why_apart.clear();
  return topology;
}

StatusOr<Reach> FindReach(const std::vector<std::string>& segments,
                          collective::Rendezvous& rendezvous, const std::atomic<bool>& cancelled,
                          Deadline deadline) {
  std::vector<std::string> reasons;
  for (const std::string& segment : segments) {
    const Status reached = collective::shm::TryToReach(segment);
    reasons.push_back(reached.ok() ? "" : std::string(Message(reached)));
  }
  std::vector<Rank> all(segments.size());
  std::iota(all.begin(), all.end(), 0);
  const std::vector<std::string> mine(all.size(), Join(reasons));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<std::string> theirs,
                            rendezvous.Exchange(kReachKey, all, mine, &cancelled, deadline));
  Reach reach;
  for (size_t rank = 0; rank < theirs.size(); ++rank) {
    reach.push_back(Part(theirs[rank]));
    if (reach.back().size() != all.size()) {
      return Internal("rank ", rank, " tells of ", reach.back().size(), " ranks, not ", all.size());
    }
  }
  return reach;
}

}  // namespace lockstep::worker
