#include "services/worker/gpu/in_flight.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lockstep::worker {
namespace {

// Some times as many as can be in flight.
constexpr size_t kRemembered = 256;

std::string NameOf(const GpuWork& work) {
  return "command " + std::to_string(work.command) + " (" + work.what + ")";
}

}  // namespace

bool MeetsAny(const TensorMemory& memory, const collective::MemoryRange& range) {
  return std::any_of(memory.begin(), memory.end(),
                     [&](const collective::MemoryRange& each) { return each.Meets(range); });
}

void InFlight::Push(Entry entry) {
  if (works_.empty()) entry.since = Deadline::Clock::now();
  works_.push_back(std::move(entry));
}

Status InFlight::Add(GpuWork work) {
  std::shared_ptr<collective::DeviceEvent> ended;
  if (!events_.empty()) {
    ended = std::move(events_.back());
    events_.pop_back();
  }
  const Status marked = device_.MarkCompute(&ended);
  if (ended == nullptr) return marked;
  // Also after an error: it is of some command, and the latest one that it can be of is this.
  Push({std::move(work), nullptr, std::move(ended)});
  return marked;
}

void InFlight::AddCommunication(GpuWork work, const collective::CommunicationSpan& span) {
  Push({std::move(work), span.began, span.ended});
}

Status InFlight::Collect(int* collected) {
  while (!works_.empty()) {
    Entry& oldest = works_.front();
    LOCKSTEP_ASSIGN_OR_RETURN(const bool done, oldest.ended->IsDone());
    const auto now = Deadline::Clock::now();
    if (!done) {
      if (oldest.work.time_limit.count() > 0 && now - oldest.since > oldest.work.time_limit) {
        return DeadlineExceeded("all ranks have begun the ", oldest.work.what,
                                ", and it has not ended on this rank's GPU after ",
                                oldest.work.time_limit.count(), " ms");
      }
      break;
    }
    if (oldest.work.done) {
      std::chrono::nanoseconds took{0};
      if (oldest.began != nullptr) {
        LOCKSTEP_ASSIGN_OR_RETURN(took, oldest.ended->Since(*oldest.began));
      }
      oldest.work.done(took);
    }
    if (oldest.began == nullptr) events_.push_back(std::move(oldest.ended));
    GpuWork& work = oldest.work;
    finished_.push_back({work.session, work.generation, work.command, !work.connections.empty(),
                         /*is_confirmed=*/false, now, std::move(work.reads),
                         std::move(work.writes)});
    if (finished_.size() > kRemembered) finished_.pop_front();
    works_.pop_front();
    if (!works_.empty()) works_.front().since = now;
    ++*collected;
  }
  return OkStatus();
}

int InFlight::Abandon() {
  // Never freed.
  static auto* const left_behind = new std::vector<tensor::Tensor>;
  static auto* const graphs_left_behind = new std::vector<std::shared_ptr<void>>;
  const auto abandoned = static_cast<int>(works_.size());
  for (Entry& entry : works_) {
    std::move(entry.work.held.begin(), entry.work.held.end(), std::back_inserter(*left_behind));
    if (entry.work.graph != nullptr) graphs_left_behind->push_back(std::move(entry.work.graph));
  }
  works_.clear();
  return abandoned;
}

void InFlight::ForEach(const std::function<void(const GpuWork&)>& visit) const {
  for (const Entry& entry : works_) visit(entry.work);
}

void InFlight::Confirm(SessionId session) {
  for (Finished& work : finished_) {
    if (work.session == session) work.is_confirmed = true;
  }
}

TensorMemory InFlight::SpoiltBy(SessionId session, const CutOff& cut_off) const {
  TensorMemory spoilt;
  const auto is_spoilt = [&](const collective::MemoryRange& range) {
    return MeetsAny(spoilt, range);
  };
  const auto follow = [&](const auto& work, bool is_cut_off) {
    if (is_cut_off || std::any_of(work.reads.begin(), work.reads.end(), is_spoilt) ||
        std::any_of(work.writes.begin(), work.writes.end(), is_spoilt)) {
      spoilt.insert(spoilt.end(), work.writes.begin(), work.writes.end());
    }
  };
  const auto is_meant = [&](const auto& work) {
    return work.generation == cut_off.generation.value_or(work.generation) &&
           work.command >= cut_off.from_command;
  };
  for (const Finished& work : finished_) {
    if (work.session != session) continue;
    const bool may_be_right = cut_off.from_command == 0 && work.is_confirmed;
    follow(work,
           work.is_collective && is_meant(work) && work.when >= cut_off.since && !may_be_right);
  }
  for (const Entry& entry : works_) {
    const GpuWork& work = entry.work;
    if (work.session == session) follow(work, !work.connections.empty() && is_meant(work));
  }
  return spoilt;
}

bool InFlight::HasAnyOf(SessionId session) const {
  return std::any_of(works_.begin(), works_.end(),
                     [&](const Entry& entry) { return entry.work.session == session; });
}

std::string InFlight::Blame() const {
  const GpuWork& first = works_.front().work;
  const GpuWork& last = works_.back().work;
  if (works_.size() == 1) return NameOf(first);
  return NameOf(first) + ", or one of the " + std::to_string(works_.size() - 1) +
         " after it that were under way, up to " + NameOf(last) + " of session " +
         std::to_string(last.session.value);
}

}  // namespace lockstep::worker
