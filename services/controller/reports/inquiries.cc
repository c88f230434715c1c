#include "services/controller/reports/inquiries.h"

#include <algorithm>

namespace lockstep::controller {

Status Inquiries::CheckRoom(const control::PeerName& client) const {
  if (pending_.size() >= kMostAtOnce) {
    return ResourceExhausted("the workers are being asked ", pending_.size(),
                             " things already; try again in a second");
  }
  const bool waits = std::any_of(pending_.begin(), pending_.end(),
                                 [&](const auto& entry) { return entry.second.client == client; });
  if (!waits) return OkStatus();
  return ResourceExhausted("you have asked the workers already; wait for the answer");
}

uint64_t Inquiries::Begin(Inquiry inquiry, std::vector<bool> waiting, Deadline deadline) {
  const uint64_t probe = ++last_probe_;
  inquiry.deadline = deadline;
  inquiry.reports.resize(waiting.size());
  inquiry.waiting = std::move(waiting);
  const bool is_complete =
      std::find(inquiry.waiting.begin(), inquiry.waiting.end(), true) == inquiry.waiting.end();
  const auto begun = pending_.emplace(probe, std::move(inquiry)).first;
  if (is_complete) Complete(begun);
  return probe;
}

void Inquiries::Add(uint64_t probe, Rank rank, const control::Frame& report) {
  const auto found = pending_.find(probe);
  if (found == pending_.end()) return;
  Inquiry& inquiry = found->second;
  inquiry.reports[static_cast<size_t>(rank)] = report;
  inquiry.waiting[static_cast<size_t>(rank)] = false;
  const auto& waiting = inquiry.waiting;
  if (std::find(waiting.begin(), waiting.end(), true) == waiting.end()) Complete(found);
}

Deadline Inquiries::Expire(TimePoint now) {
  Deadline next = Deadline::At(now + std::chrono::hours(1));
  for (auto it = pending_.begin(); it != pending_.end();) {
    const auto inquiry = it++;
    if (inquiry->second.deadline.when() <= now) {
      Complete(inquiry);
    } else {
      next = next.Earlier(inquiry->second.deadline);
    }
  }
  return next;
}

void Inquiries::Complete(std::map<uint64_t, Inquiry>::iterator inquiry) {
  const Inquiry done = std::move(inquiry->second);
  pending_.erase(inquiry);
  finish_(done);
}

}  // namespace lockstep::controller
