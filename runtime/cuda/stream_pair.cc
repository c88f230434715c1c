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
  if (IsCapturing()) return LetFollowInCapture(*capture_->communication, *capture_->compute);
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
  if (IsCapturing()) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::shared_ptr<Event> until, gpu_->NewEvent(/*timed=*/false));
    LOCKSTEP_RETURN_IF_ERROR(capture_->communication->Record(*until));
    for (const collective::MemoryRange& range : ranges) {
      if (range.size_bytes > 0) capture_->uses.push_back({range, until});
    }
    return OkStatus();
  }
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
  const auto meets = [&](const Use& use) { return use.range.Meets(range); };
  if (IsCapturing()) {
    std::vector<Use>& uses = capture_->uses;
    const auto last = std::find_if(uses.rbegin(), uses.rend(), meets);
    if (last == uses.rend()) return OkStatus();
    LOCKSTEP_RETURN_IF_ERROR(capture_->compute->WaitFor(*last->until));
    uses.erase(uses.begin(), last.base());
    return OkStatus();
  }
  std::lock_guard lock(mutex_);
  const auto last = std::find_if(uses_.rbegin(), uses_.rend(), meets);
  return last == uses_.rend() ? OkStatus() : LetComputeFollow(std::prev(last.base()));
}

Status StreamPair::BeforeComputeOnAnything() {
  if (IsCapturing()) {
    if (capture_->uses.empty()) return OkStatus();
    LOCKSTEP_RETURN_IF_ERROR(capture_->compute->WaitFor(*capture_->uses.back().until));
    capture_->uses.clear();
    return OkStatus();
  }
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

Status StreamPair::LetFollowInCapture(Stream& stream, Stream& other) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<Event> now, gpu_->NewEvent(/*timed=*/false));
  LOCKSTEP_RETURN_IF_ERROR(other.Record(*now));
  return stream.WaitFor(*now);
}

// In streams of its own: what other threads free goes on in the usual ones.
Status StreamPair::BeginCapture() {
  if (capture_ == nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(auto compute, gpu_->NewStream());
    LOCKSTEP_ASSIGN_OR_RETURN(auto communication, gpu_->NewStream());
    capture_.reset(new Capture{std::move(compute), std::move(communication), {}, {}});
  }
  LOCKSTEP_RETURN_IF_ERROR(capture_->communication->BeginCapture());
  capturing_ = std::this_thread::get_id();
  const Status joined = LetFollowInCapture(*capture_->compute, *capture_->communication);
  if (!joined.ok()) (void)EndCapture();
  return joined;
}

StatusOr<std::unique_ptr<StreamPair::CapturedGraph>> StreamPair::EndCapture() {
  const Status joined = LetFollowInCapture(*capture_->communication, *capture_->compute);
  StatusOr<std::unique_ptr<Graph>> graph = capture_->communication->EndCapture();
  capturing_ = std::thread::id();
  auto captured = std::make_unique<CapturedGraph>();
  captured->held_ = std::exchange(capture_->held, {});
  for (const auto& memory : captured->held_) captured->held_bytes_ += memory->size_bytes();
  capture_->uses.clear();
  LOCKSTEP_RETURN_IF_ERROR(joined);
  LOCKSTEP_ASSIGN_OR_RETURN(captured->graph_, std::move(graph));
  return captured;
}

void StreamPair::HoldByCapture(std::shared_ptr<tensor::Storage> memory) {
  capture_->held.push_back(std::move(memory));
}

Status StreamPair::Launch(CapturedGraph& graph, absl::Span<const collective::MemoryRange> memory) {
  LOCKSTEP_RETURN_IF_ERROR(BeginCommunication());
  const Status launched = communication_->Launch(*graph.graph_);
  std::vector<collective::MemoryRange> all(memory.begin(), memory.end());
  for (const auto& held : graph.held_) all.push_back({held->data(), held->size_bytes()});
  // Also after an error: some of it may have been put in.
  const Status ended = EndCommunication(all);
  return launched.ok() ? ended : launched;
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
