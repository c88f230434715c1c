#include "services/worker/topology.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <sstream>

#include "runtime/collective/shm/shm.h"

namespace lockstep::worker {
namespace {

// Names the exchange in which ranks tell what they reach. Every other key is a hash.
constexpr uint64_t kReachKey = 0;

// "1101 2 it is gone": who is reached, an example of who is not, and why.
std::string ToText(const Reach& reach) {
  std::string text;
  for (const bool reached : reach.ranks) text += reached ? '1' : '0';
  return text + ' ' + std::to_string(reach.example) + ' ' + reach.why;
}

// None: the text makes no sense.
std::optional<Reach> FromText(const std::string& text, size_t size) {
  std::istringstream in(text);
  std::string ranks;
  Reach reach;
  in >> ranks >> reach.example;
  std::getline(in >> std::ws, reach.why);
  if (ranks.size() != size || reach.example >= static_cast<Rank>(size)) return std::nullopt;
  for (const char reached : ranks) reach.ranks.push_back(reached == '1');
  return reach;
}

}  // namespace

const std::vector<Rank>& Topology::NodeOf(Rank rank) const {
  return *std::find_if(nodes.begin(), nodes.end(), [&](const std::vector<Rank>& node) {
    return std::find(node.begin(), node.end(), rank) != node.end();
  });
}

Topology DrawTopology(const std::vector<Reach>& reach) {
  const auto reaches = [&](Rank from, Rank to) {
    return reach[static_cast<size_t>(from)].ranks[static_cast<size_t>(to)];
  };
  Topology topology;
  for (Rank rank = 0; rank < static_cast<Rank>(reach.size()); ++rank) {
    const auto home = std::find_if(topology.nodes.begin(), topology.nodes.end(),
                                   [&](const std::vector<Rank>& node) {
                                     return std::all_of(node.begin(), node.end(), [&](Rank member) {
                                       return reaches(rank, member) && reaches(member, rank);
                                     });
                                   });
    if (home == topology.nodes.end()) {
      topology.nodes.push_back({rank});
    } else {
      home->push_back(rank);
    }
  }
  if (topology.nodes.size() == 1) return topology;
  for (size_t rank = 0; rank < reach.size(); ++rank) {
    if (reach[rank].example < 0) continue;
    topology.why_apart = "rank " + std::to_string(rank) + " cannot map the memory of rank " +
                         std::to_string(reach[rank].example) + ": " + reach[rank].why;
    break;
  }
  return topology;
}

StatusOr<std::vector<Reach>> FindReach(const std::vector<std::string>& segments,
                                       collective::Rendezvous& rendezvous,
                                       const std::atomic<bool>& cancelled, Deadline deadline) {
  Reach mine;
  for (const std::string& segment : segments) {
    const Status reached = collective::shm::TryToReach(segment);
    if (!reached.ok() && mine.example < 0) {
      mine.example = static_cast<Rank>(mine.ranks.size());
      mine.why = Message(reached);
    }
    mine.ranks.push_back(reached.ok());
  }
  std::vector<Rank> all(segments.size());
  std::iota(all.begin(), all.end(), 0);
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::vector<std::string> theirs,
      rendezvous.Exchange(kReachKey, all, {ToText(mine)}, &cancelled, deadline));
  std::vector<Reach> reach;
  for (size_t rank = 0; rank < theirs.size(); ++rank) {
    std::optional<Reach> read = FromText(theirs[rank], all.size());
    if (!read.has_value()) return Internal("rank ", rank, " does not tell which memory it can map");
    reach.push_back(*std::move(read));
  }
  return reach;
}

}  // namespace lockstep::worker
