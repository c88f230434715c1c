#include "services/worker/join/rendezvous.h"

#include <chrono>
#include <utility>

#include "runtime/base/rank_text.h"
#include "runtime/control/message_codec.h"

namespace lockstep::worker {
namespace {

// What the controller has not heard, because a connection broke, is said again.
constexpr std::chrono::milliseconds kSayAgain{500};
// How often to look whether the exchange was cancelled.
constexpr std::chrono::milliseconds kLookAfter{5};

}  // namespace

ControllerRendezvous::ControllerRendezvous(Identity identity, Send send)
    : identity_(identity), send_(std::move(send)) {}

void ControllerRendezvous::Say(uint64_t number, uint64_t key, absl::Span<const Rank> members,
                               const std::vector<std::string>& offers) {
  control::Frame frame = control::EncodeMessage<wire::LivenessMessage>([&](auto message) {
    auto exchange = message.initExchange();
    exchange.setRank(identity_.rank);
    exchange.setController(identity_.controller.value);
    exchange.setWatch(identity_.watch);
    exchange.setEpoch(epoch_.value);
    exchange.setNumber(number);
    exchange.setKey(key);
    auto ranks = exchange.initMembers(static_cast<unsigned>(members.size()));
    for (unsigned i = 0; i < ranks.size(); ++i) ranks.set(i, members[i]);
    auto list = exchange.initOffers(static_cast<unsigned>(offers.size()));
    for (unsigned i = 0; i < list.size(); ++i) {
      list.set(i, {reinterpret_cast<const capnp::byte*>(offers[i].data()), offers[i].size()});
    }
  });
  std::lock_guard lock(mutex_);
  if (send_ != nullptr) send_(std::move(frame));
}

StatusOr<std::vector<std::string>> ControllerRendezvous::Exchange(
    uint64_t key, absl::Span<const Rank> members, const std::vector<std::string>& mine,
    const std::atomic<bool>* cancelled, Deadline deadline) {
  if (members.size() == 1) return mine;  // with itself
  const uint64_t number = ++number_;
  {
    std::lock_guard lock(mutex_);
    progress_ = {number, {}, {}};
  }
  auto say_again = Deadline::After({});
  while (true) {
    if (say_again.Expired()) {
      Say(number, key, members, mine);
      say_again = Deadline::After(kSayAgain);
    }
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kLookAfter,
                      [&] { return progress_.answers.has_value() || send_ == nullptr; });
    if (progress_.answers.has_value()) {
      if (progress_.answers->size() == members.size()) return *std::move(progress_.answers);
      return Internal("the controller answered ", members.size(), " ranks with the offers of ",
                      progress_.answers->size());
    }
    if (send_ == nullptr) return Unavailable("there is no controller to meet the other ranks at");
    const std::vector<Rank> missing = progress_.missing;
    lock.unlock();
    if (cancelled != nullptr && *cancelled) {
      return GiveUp(Aborted("connecting the ranks was cancelled"));
    }
    if (!deadline.Expired()) continue;
    if (missing.empty()) return GiveUp(DeadlineExceeded("no rank was met at the controller"));
    return GiveUp(DeadlineExceeded(ListRanks(missing),
                                   " did not come to connect with the other ranks in time"));
  }
}

Status ControllerRendezvous::GiveUp(const Status& why) {
  Say(++number_, 0, {}, {});
  return why;
}

void ControllerRendezvous::Take(wire::Exchanged::Reader exchanged, const control::Frame& offered) {
  std::lock_guard lock(mutex_);
  if (exchanged.getNumber() != progress_.number) return;
  progress_.missing.clear();
  for (const Rank rank : exchanged.getMissing()) progress_.missing.push_back(rank);
  if (!progress_.missing.empty()) return;
  std::vector<std::string>& answers = progress_.answers.emplace();
  // Of a list that cannot be read nothing is taken, and Exchange() finds the number of answers
  // wrong.
  (void)control::DecodeMessage<wire::OfferList>(offered, [&](wire::OfferList::Reader list) {
    for (const auto answer : list.getOffers()) {
      answers.emplace_back(reinterpret_cast<const char*>(answer.begin()), answer.size());
    }
    return OkStatus();
  });
  changed_.notify_all();
}

void ControllerRendezvous::Close() {
  std::lock_guard lock(mutex_);
  send_ = nullptr;
  changed_.notify_all();
}

}  // namespace lockstep::worker
