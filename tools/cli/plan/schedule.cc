#include "tools/cli/plan/schedule.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace lockstep::cli::plan_file {
namespace {

using plan::CollectiveStep;

class Scheduler {
 public:
  Scheduler(const std::map<Rank, plan::ProgramSteps>& ranks, const plan::Topology& topology,
            const plan::CostModel& costs, double call_micros)
      : ranks_(ranks), topology_(topology), costs_(costs), call_micros_(call_micros) {}

  std::map<Rank, std::vector<ScheduledStep>> Run() {
    for (const auto& [rank, steps] : ranks_) ready_.push_back(rank);
    while (!ready_.empty()) {
      const Rank rank = ready_.front();
      ready_.pop_front();
      Advance(rank, ranks_.at(rank));
    }
    return std::move(schedule_);
  }

 private:
  // Up to the next collective; that as well, with all of its team, if the others have come to it.
  void Advance(Rank rank, const plan::ProgramSteps& steps) {
    while (schedule_[rank].size() < steps.steps.size()) {
      const plan::ProgramStep& step = steps.steps[schedule_[rank].size()];
      if (const auto* collective = std::get_if<CollectiveStep>(&step.what)) {
        if (++arrived_[{collective->number, collective->team.front()}] == collective->team.size()) {
          Meet(*collective);
        }
        return;
      }
      Add(rank, now_[rank], LocalMicros(step, steps));
    }
  }

  void Add(Rank rank, double begin, double micros) {
    schedule_[rank].push_back({now_[rank], begin, begin + micros});
    now_[rank] = begin + micros;
  }

  const CollectiveStep& CollectiveAt(Rank rank) {
    return std::get<CollectiveStep>(ranks_.at(rank).steps[schedule_[rank].size()].what);
  }

  void Meet(const CollectiveStep& any) {
    const std::vector<Rank>& team = any.team;
    double begin = 0;
    double micros = 0;
    for (const Rank member : team) {
      begin = std::max(begin, now_[member]);
      micros = std::max(micros, CollectiveMicros(CollectiveAt(member), member));
    }
    for (const Rank member : team) {
      Add(member, begin, micros);
      ready_.push_back(member);
    }
  }

  static double BytesOf(const plan::ProgramSteps& steps, const plan::Span& span) {
    const plan::StepBuffer& buffer = steps.buffers[static_cast<size_t>(span.buffer)];
    return static_cast<double>(span.count) * static_cast<double>(SizeOf(buffer.dtype));
  }

  double LocalMicros(const plan::ProgramStep& step, const plan::ProgramSteps& steps) const {
    if (const auto* copy = std::get_if<plan::CopyStep>(&step.what)) {
      return BytesOf(steps, {copy->to_buffer, 0, copy->count}) * costs_.copy_us_per_byte;
    }
    if (const auto* fill = std::get_if<plan::FillStep>(&step.what)) {
      return BytesOf(steps, fill->to) * costs_.copy_us_per_byte;
    }
    return call_micros_;
  }

  // What its member moves: the larger of what it sends and receives, twice for an allreduce.
  double CollectiveMicros(const CollectiveStep& step, Rank rank) const {
    const plan::ProgramSteps& steps = ranks_.at(rank);
    const double bytes = std::max(BytesOf(steps, step.send), BytesOf(steps, step.recv)) *
                         (step.kind == OperationKind::kAllReduce ? 2 : 1);
    const bool crosses = std::any_of(step.team.begin(), step.team.end(), [&](Rank other) {
      return topology_.NodeOf(other) != topology_.NodeOf(rank);
    });
    return crosses ? costs_.network_step_us + bytes * costs_.network_us_per_byte
                   : costs_.step_us + bytes * costs_.us_per_byte;
  }

  const std::map<Rank, plan::ProgramSteps>& ranks_;
  const plan::Topology& topology_;
  const plan::CostModel& costs_;
  const double call_micros_;
  std::map<Rank, std::vector<ScheduledStep>> schedule_;
  std::map<Rank, double> now_;
  std::deque<Rank> ready_;  // to go on
  // How many of a team, named by its collective and its first rank, have come.
  std::map<std::pair<int, Rank>, size_t> arrived_;
};

}  // namespace

std::map<Rank, std::vector<ScheduledStep>> Schedule(const std::map<Rank, plan::ProgramSteps>& ranks,
                                                    const plan::Topology& topology,
                                                    const plan::CostModel& costs,
                                                    double call_micros) {
  return Scheduler(ranks, topology, costs, call_micros).Run();
}

}  // namespace lockstep::cli::plan_file
