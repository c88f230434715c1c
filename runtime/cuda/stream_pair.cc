#include "runtime/cuda/stream_pair.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lockstep::cuda {

StatusOr<std::unique_ptr<StreamPair>> StreamPair::Create(std::shared_ptr<Gpu> gpu) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto compute, gpu->NewStream());
  LOCKSTEP_ASSIGN_OR_RETURN(auto communication, gpu->NewStream());
  LOCKSTEP_ASSIGN_OR_RETURN(auto computed, gpu->NewEvent(/*timed=*/false));
  return std::unique_ptr<StreamPair>(new StreamPair(std::move(gpu), std::move(compute),
                                                    std::move(communication), std::move(computed)));
}

Status StreamPair::LetCommunicationFollow() {
  // An event may be recorded again while a stream waits for it: the wait is for what it was then.
  LOCKSTEP_RETURN_IF_ERROR(compute_->Record(*computed_));
  return communication_->WaitFor(*computed_);
}

Status StreamPair::BeginCommunication() {
  std::lock_guard lock(mutex_);
  if (last_.began != nullptr) return LetCommunicationFollow();
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<Event> came, TakeEvent());
  LOCKSTEP_RETURN_IF_ERROR(communication_->Record(*came));
  LOCKSTEP_RETURN_IF_ERROR(LetCommunicationFollow());
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<Event> began, TakeEvent());
  last_.began = began;
  LOCKSTEP_RETURN_IF_ERROR(communication_->Record(*began));
  of_communication_.pending.push_back({std::move(came), std::move(began)});
  return of_communication_.Count();
}

collective::CommunicationSpan StreamPair::TakeLastCommunication() {
  std::lock_guard lock(mutex_);
  collective::CommunicationSpan last = std::exchange(last_, {});
  return last.ended == nullptr ? collective::CommunicationSpan() : last;
}

std::shared_ptr<Event> StreamPair::EndOfLastCommunication() {
  std::lock_guard lock(mutex_);
  return last_end_;
}

Status StreamPair::EndCommunication(absl::Span<const collective::MemoryRange> ranges) {
  std::lock_guard lock(mutex_);
  LOCKSTEP_RETURN_IF_ERROR(ForgetWhatIsDone());
  LOCKSTEP_ASSIGN_OR_RETURN(const std::shared_ptr<Event> until, TakeEvent());
  LOCKSTEP_RETURN_IF_ERROR(communication_->Record(*until));
  last_.ended = last_end_ = until;
  for (const collective::MemoryRange& range : ranges) {
    if (range.size_bytes > 0) uses_.push_back({range, until});
  }
  return OkStatus();
}

Status StreamPair::BeforeCompute(const collective::MemoryRange& range) {
  std::lock_guard lock(mutex_);
  const auto last = std::find_if(uses_.rbegin(), uses_.rend(),
                                 [&](const Use& use) { return use.range.Meets(range); });
  return last == uses_.rend() ? OkStatus() : LetComputeFollow(std::prev(last.base()));
}

Status StreamPair::BeforeComputeOnAnything() {
  std::lock_guard lock(mutex_);
  if (uses_.empty()) return OkStatus();
  return LetComputeFollow(std::prev(uses_.end()));
}

Status StreamPair::LetComputeFollow(std::vector<Use>::iterator use) {
  LOCKSTEP_ASSIGN_OR_RETURN(const bool done, use->until->IsDone());
  if (!done) {
    LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<Event> came, TakeEvent());
    LOCKSTEP_RETURN_IF_ERROR(compute_->Record(*came));
    LOCKSTEP_RETURN_IF_ERROR(compute_->WaitFor(*use->until));
    LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<Event> went_on, TakeEvent());
    LOCKSTEP_RETURN_IF_ERROR(compute_->Record(*went_on));
    of_compute_.pending.push_back({std::move(came), std::move(went_on)});
    LOCKSTEP_RETURN_IF_ERROR(of_compute_.Count());
  }
  // Communication is done in order: what was put in before is done by then, too.
  uses_.erase(uses_.begin(), std::next(use));
  return OkStatus();
}

StatusOr<collective::StreamWaits> StreamPair::Waits() {
  std::lock_guard lock(mutex_);
  LOCKSTEP_RETURN_IF_ERROR(of_compute_.Count());
  LOCKSTEP_RETURN_IF_ERROR(of_communication_.Count());
  return collective::StreamWaits{of_compute_.total, of_communication_.total};
}

Status StreamPair::StandStills::Count() {
  while (!pending.empty()) {
    const auto& [came, went_on] = pending.front();
    LOCKSTEP_ASSIGN_OR_RETURN(const bool done, went_on->IsDone());
    if (!done) break;
    LOCKSTEP_ASSIGN_OR_RETURN(const auto took, went_on->Since(*came));
    total += took;
    pending.pop_front();
  }
  return OkStatus();
}

StatusOr<Stream*> StreamPair::BeforeFree(const collective::MemoryRange& range) {
  std::lock_guard lock(mutex_);
  if (std::erase_if(uses_, [&](const Use& use) { return use.range.Meets(range); }) == 0) {
    return compute_.get();
  }
  // Compute need not wait: after the communication that uses it, and what was computed before now.
  LOCKSTEP_RETURN_IF_ERROR(LetCommunicationFollow());
  return communication_.get();
}

Status StreamPair::ForgetWhatIsDone() {
  while (!uses_.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(const bool done, uses_.front().until->IsDone());
    if (!done) break;
    uses_.erase(uses_.begin());
  }
  return OkStatus();
}

StatusOr<std::shared_ptr<Event>> StreamPair::TakeEvent() {
  const auto unused = std::find_if(events_.begin(), events_.end(),
                                   [](const auto& event) { return event.use_count() == 1; });
  if (unused != events_.end()) return *unused;
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Event> event, gpu_->NewEvent(/*timed=*/true));
  events_.push_back(std::move(event));
  return events_.back();
}

}  // namespace lockstep::cuda
