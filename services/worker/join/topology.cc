#include "services/worker/join/topology.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include "runtime/collective/shm/shm.h"

namespace lockstep::worker {
namespace {

// Names the exchange in which ranks tell what they mapped. Every other key is a hash.
constexpr uint64_t kMappedKey = 0;
// Of one that maps no memory, not even its own.
constexpr char kNoRanks[] = "none";

// A number at the start of `text`, which then begins behind it; -1: there is none.
int TakeNumber(std::string_view& text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return -1;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

// Marks what `text` lists: "0-3,8". False: it makes no sense, or there are no such ranks.
bool ReadRanges(std::string_view text, std::vector<bool>& ranks) {
  while (true) {
    const int first = TakeNumber(text);
    int last = first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      last = TakeNumber(text);
    }
    if (first < 0 || last < first || last >= static_cast<int>(ranks.size())) return false;
    std::fill(ranks.begin() + first, ranks.begin() + last + 1, true);
    if (text.empty()) return true;
    if (!text.starts_with(',')) return false;
    text.remove_prefix(1);
  }
}

}  // namespace

std::string ToText(const MappedRanks& mapped) {
  std::string text;
  const auto size = mapped.ranks.size();
  for (size_t first = 0; first < size; ++first) {
    if (!mapped.ranks[first]) continue;
    size_t last = first;
    while (last + 1 < size && mapped.ranks[last + 1]) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(first);
    if (last > first) text += "-" + std::to_string(last);
    first = last;
  }
  if (text.empty()) text = kNoRanks;
  return text + ' ' + std::to_string(mapped.example) + ' ' + mapped.why;
}

std::optional<MappedRanks> FromText(const std::string& text, size_t size) {
  std::istringstream in(text);
  std::string ranks;
  MappedRanks mapped;
  mapped.ranks.assign(size, false);
  if (!(in >> ranks >> mapped.example)) return std::nullopt;
  std::getline(in >> std::ws, mapped.why);
  if (mapped.example >= static_cast<Rank>(size)) return std::nullopt;
  if (ranks != kNoRanks && !ReadRanges(ranks, mapped.ranks)) return std::nullopt;
  return mapped;
}

const std::vector<Rank>& Topology::NodeOf(Rank rank) const {
  return *std::find_if(nodes.begin(), nodes.end(), [&](const std::vector<Rank>& node) {
    return std::find(node.begin(), node.end(), rank) != node.end();
  });
}

std::vector<int> Topology::ByRank() const {
  std::vector<int> by_rank;
  for (size_t node = 0; node < nodes.size(); ++node) {
    for (const Rank rank : nodes[node]) {
      if (by_rank.size() <= static_cast<size_t>(rank))
        by_rank.resize(static_cast<size_t>(rank) + 1);
      by_rank[static_cast<size_t>(rank)] = static_cast<int>(node);
    }
  }
  return by_rank;
}

Topology DrawTopology(const std::vector<MappedRanks>& mapped) {
  const auto reaches = [&](Rank from, Rank to) {
    return mapped[static_cast<size_t>(from)].ranks[static_cast<size_t>(to)];
  };
  Topology topology;
  for (Rank rank = 0; rank < static_cast<Rank>(mapped.size()); ++rank) {
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
  for (size_t rank = 0; rank < mapped.size(); ++rank) {
    if (mapped[rank].example < 0) continue;
    topology.why_apart = "rank " + std::to_string(rank) + " cannot map the memory of rank " +
                         std::to_string(mapped[rank].example) + ": " + mapped[rank].why;
    break;
  }
  return topology;
}

StatusOr<std::vector<MappedRanks>> ExchangeMappedRanks(const std::vector<std::string>& segments,
                                                       collective::Rendezvous& rendezvous,
                                                       const std::atomic<bool>& cancelled,
                                                       Deadline deadline) {
  MappedRanks mine;
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
      rendezvous.Exchange(kMappedKey, all, {ToText(mine)}, &cancelled, deadline));
  std::vector<MappedRanks> mapped;
  for (size_t rank = 0; rank < theirs.size(); ++rank) {
    std::optional<MappedRanks> read = FromText(theirs[rank], all.size());
    if (!read.has_value()) return Internal("rank ", rank, " does not tell which memory it can map");
    mapped.push_back(*std::move(read));
  }
  return mapped;
}

}  // namespace lockstep::worker
