#include "runtime/control/tree/answer_collector.h"

#include <algorithm>

namespace lockstep::control {

void AnswerCollector::Add(uint64_t number, const PeerName& peer, const AnswerKey& key) {
  workers_[number] = {.peer = peer, .key = key};
}

Status AnswerCollector::Take(const Message& bundle,
                             const std::function<void(const Fault&)>& on_fault) {
  return ReadBundle(bundle, [&](Answer answer) {
    const auto found = workers_.find(answer.worker);
    if (found == workers_.end()) return;  // of one that is lost
    Worker& worker = found->second;
    // What may have been lost was said again.
    if (answer.number <= worker.last) return;
    if (!AreSame(answer.tag, worker.key.TagOf(answer.number, answer.message))) {
      return on_fault({Fault::Kind::kTag, worker.peer, worker.last});
    }
    if (answer.number != worker.last + 1) {
      worker.dropped = std::max(worker.dropped, answer.number);
      return on_fault({Fault::Kind::kGap, worker.peer, worker.last});
    }
    worker.last = answer.number;
    answers_.emplace_back(worker.peer, std::move(answer.message));
  });
}

bool AnswerCollector::HasGap(uint64_t number) const {
  const auto found = workers_.find(number);
  return found != workers_.end() && found->second.dropped > found->second.last;
}

std::pair<PeerName, Message> AnswerCollector::Next() {
  std::pair<PeerName, Message> next = std::move(answers_.front());
  answers_.pop_front();
  return next;
}

}  // namespace lockstep::control
