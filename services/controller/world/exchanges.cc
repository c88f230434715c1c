#include "services/controller/world/exchanges.h"

#include <algorithm>

#include "runtime/control/message_codec.h"

namespace lockstep::controller {
namespace {

size_t PlaceOf(Rank rank, const std::vector<Rank>& members) {
  return static_cast<size_t>(std::find(members.begin(), members.end(), rank) - members.begin());
}

}  // namespace

bool Exchanges::MakesSense(const Offer& offer) const {
  const auto is_rank = [&](Rank rank) {
    return rank >= 0 && static_cast<size_t>(rank) < last_.size();
  };
  if (!is_rank(offer.rank)) return false;
  if (offer.members.empty()) return true;
  if (offer.offered.size() != 1 && offer.offered.size() != offer.members.size()) return false;
  std::vector<Rank> sorted = offer.members;
  std::sort(sorted.begin(), sorted.end());
  return std::all_of(sorted.begin(), sorted.end(), is_rank) &&
         std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end() &&
         std::binary_search(sorted.begin(), sorted.end(), offer.rank);
}

std::vector<Exchanges::Answer> Exchanges::Take(Offer offer) {
  if (!MakesSense(offer) || offer.epoch < epoch_) return {};
  if (offer.epoch > epoch_) {
    epoch_ = offer.epoch;
    meetings_.clear();
    std::fill(last_.begin(), last_.end(), Last());
  }
  Last& last = last_[static_cast<size_t>(offer.rank)];
  if (offer.number < last.number) return {};
  const bool is_new = offer.number > last.number;
  if (is_new) {
    GiveUp(offer.rank);
    last.number = offer.number;
  }
  if (offer.members.empty()) return {};
  if (last.answer.has_value()) return {*last.answer};

  const size_t size = offer.members.size();
  Name wanted{offer.key, std::move(offer.members)};
  // Said again under another name, it would be remembered under both, and never forgotten.
  if (last.meeting != nullptr && *last.meeting != wanted) return {};
  // All members share one list of them: a list for each would be their square.
  offer.members.clear();
  const auto found = meetings_.try_emplace(std::move(wanted), size).first;
  const Name& name = found->first;
  Meeting& meeting = found->second;
  Answer answer{offer.rank, offer.number, nullptr, {}};
  last.meeting = &name;
  meeting[PlaceOf(offer.rank, name.second)] = std::move(offer);
  for (size_t i = 0; i < meeting.size(); ++i) {
    if (!meeting[i].has_value()) answer.missing.push_back(name.second[i]);
  }
  if (answer.missing.empty()) return Complete(found);
  if (is_new) return {};
  return {std::move(answer)};
}

std::shared_ptr<const Exchanges::Offered> Exchanges::OfferedTo(const Meeting& meeting, size_t to) {
  auto offered = std::make_shared<Offered>();
  for (const auto& from : meeting) {
    offered->texts.push_back(from->offered[from->offered.size() == 1 ? 0 : to]);
  }
  offered->frame = control::EncodeMessage<wire::OfferList>([&](wire::OfferList::Builder list) {
    auto offers = list.initOffers(static_cast<unsigned>(offered->texts.size()));
    for (unsigned i = 0; i < offers.size(); ++i) {
      const std::string& text = offered->texts[i];
      offers.set(i, {reinterpret_cast<const capnp::byte*>(text.data()), text.size()});
    }
  });
  return offered;
}

std::vector<Exchanges::Answer> Exchanges::Complete(Meetings::iterator met) {
  const std::vector<Rank>& members = met->first.second;
  const Meeting& meeting = met->second;
  const bool is_same_for_all = std::all_of(
      meeting.begin(), meeting.end(), [](const auto& from) { return from->offered.size() == 1; });
  std::shared_ptr<const Offered> offered;
  std::vector<Answer> answers;
  for (size_t to = 0; to < meeting.size(); ++to) {
    if (offered == nullptr || !is_same_for_all) offered = OfferedTo(meeting, to);
    Answer answer{members[to], meeting[to]->number, offered, {}};
    Last& last = last_[static_cast<size_t>(answer.to)];
    last.meeting = nullptr;
    last.answer = answer;
    answers.push_back(std::move(answer));
  }
  meetings_.erase(met);
  return answers;
}

void Exchanges::Forget(Rank rank) {
  GiveUp(rank);
  last_[static_cast<size_t>(rank)] = Last();
}

void Exchanges::GiveUp(Rank rank) {
  Last& last = last_[static_cast<size_t>(rank)];
  last.answer.reset();
  if (last.meeting == nullptr) return;
  const auto found = meetings_.find(*last.meeting);
  last.meeting = nullptr;
  Meeting& meeting = found->second;
  meeting[PlaceOf(rank, found->first.second)].reset();
  const bool is_empty = std::none_of(meeting.begin(), meeting.end(),
                                     [](const auto& offer) { return offer.has_value(); });
  if (is_empty) meetings_.erase(found);
}

Exchanges::Offer ReadOffer(wire::Exchange::Reader exchange) {
  Exchanges::Offer offer;
  offer.rank = exchange.getRank();
  offer.epoch = Epoch(exchange.getEpoch());
  offer.number = exchange.getNumber();
  offer.key = exchange.getKey();
  for (const Rank member : exchange.getMembers()) offer.members.push_back(member);
  for (const auto offered : exchange.getOffers()) {
    offer.offered.emplace_back(reinterpret_cast<const char*>(offered.begin()), offered.size());
  }
  return offer;
}

control::Message ExchangedMessage(const Exchanges::Answer& answer) {
  control::Message message = {
      control::EncodeMessage<wire::LivenessMessage>([&](wire::LivenessMessage::Builder builder) {
        auto exchanged = builder.initExchanged();
        exchanged.setNumber(answer.number);
        auto missing = exchanged.initMissing(static_cast<unsigned>(answer.missing.size()));
        for (unsigned i = 0; i < missing.size(); ++i) missing.set(i, answer.missing[i]);
      })};
  if (answer.offered != nullptr) message.push_back(answer.offered->frame);
  return message;
}

}  // namespace lockstep::controller
