#include "services/worker/gpu/gpu_choice.h"

#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "runtime/collective/call.h"

namespace lockstep::worker {
namespace {

constexpr char kBetween = '\n';
// Names this exchange apart from others of the world.
constexpr uint64_t kOffers = 0x6770756f66666572;

std::string Encode(const GpuOffer& offer) {
  std::string text = offer.host;
  for (const std::string& gpu : offer.gpus) text += kBetween + gpu;
  return text;
}

GpuOffer Decode(const std::string& text) {
  GpuOffer offer;
  size_t begin = 0;
  for (bool is_first = true; begin <= text.size(); is_first = false) {
    const size_t end = std::min(text.find(kBetween, begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (is_first) {
      offer.host = word;
    } else {
      offer.gpus.push_back(word);
    }
    begin = end + 1;
  }
  return offer;
}

}  // namespace

StatusOr<std::vector<int>> ChooseGpus(const std::vector<GpuOffer>& offers) {
  // The rank that has each GPU. Where a rank finds all of its own taken, the rank that has one of
  // them takes another, if it can: augmenting paths, as in Kuhn's algorithm for assignments.
  std::map<std::pair<std::string, std::string>, size_t> taken;
  std::vector<int> chosen(offers.size(), -1);
  std::function<bool(size_t, std::set<std::string>&)> find = [&](size_t rank,
                                                                 std::set<std::string>& asked) {
    const GpuOffer& offer = offers[rank];
    // Those that no rank has first: a rank that has one keeps it if that is possible.
    for (const bool may_move_others : {false, true}) {
      for (size_t i = 0; i < offer.gpus.size(); ++i) {
        const auto holder = taken.find({offer.host, offer.gpus[i]});
        const bool is_free = holder == taken.end();
        if (is_free == may_move_others) continue;
        if (!is_free && (!asked.insert(offer.gpus[i]).second || !find(holder->second, asked))) {
          continue;
        }
        taken[{offer.host, offer.gpus[i]}] = rank;
        chosen[rank] = static_cast<int>(i);
        return true;
      }
    }
    return false;
  };
  for (size_t rank = 0; rank < offers.size(); ++rank) {
    std::set<std::string> asked;
    if (offers[rank].gpus.empty() || find(rank, asked)) continue;
    return FailedPrecondition(
        "rank ", rank, " finds no GPU of its own: the ", offers[rank].gpus.size(),
        " that it sees on its host are used by ranks before it; start as many workers "
        "on a host as it has GPUs");
  }
  return chosen;
}

StatusOr<std::vector<GpuOffer>> ExchangeOffers(const Membership& membership, const GpuOffer& mine,
                                               collective::Rendezvous& rendezvous,
                                               const std::atomic<bool>& cancelled,
                                               Deadline deadline) {
  std::vector<Rank> all(static_cast<size_t>(membership.world_size()));
  std::iota(all.begin(), all.end(), 0);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<std::string> words,
                            rendezvous.Exchange(collective::Mix(membership.epoch.value, kOffers),
                                                all, {Encode(mine)}, &cancelled, deadline));
  std::vector<GpuOffer> offers;
  for (const std::string& word : words) offers.push_back(Decode(word));
  return offers;
}

}  // namespace lockstep::worker
