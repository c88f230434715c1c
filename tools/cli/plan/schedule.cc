#include "tools/cli/plan/schedule.h"

#include <algorithm>
#include <array>
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
    for (const auto& [rank, steps] : ranks_) CountTraffic(rank, steps);
    for (const auto& [rank, steps] : ranks_) {
      schedule_[rank].resize(steps.steps.size());
      RankState& state = states_[rank];
      state.is_done.resize(steps.steps.size());
      for (size_t i = 0; i < steps.steps.size(); ++i) {
        state.lanes[LaneOf(steps, i)].push_back(i);
      }
      ready_.push_back(rank);
    }
    while (!ready_.empty()) {
      const Rank rank = ready_.front();
      ready_.pop_front();
      Advance(rank);
    }
    return std::move(schedule_);
  }

 private:
  // Where a rank is: its lanes, of which there is one if they do not overlap.
  struct RankState {
    std::array<std::vector<size_t>, 2> lanes;
    std::array<size_t, 2> next = {0, 0};
    std::array<double, 2> now = {0, 0};
    std::vector<bool> is_done;
    bool has_arrived = false;  // at the collective that is next
  };
  static size_t LaneOf(const plan::ProgramSteps& steps, size_t number) {
    return steps.lanes_overlap ? static_cast<size_t>(steps.steps[number].lane) : 0;
  }

  // Each lane up to a step of the other that is not done, or to the next collective; that as well,
  // with all of its team, if the others have come to it.
  void Advance(Rank rank) {
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (size_t lane = 0; lane < 2; ++lane) {
        while (AdvanceLane(rank, lane)) goes_on = true;
      }
    }
  }

  // One step, if there is one that can be done.
  bool AdvanceLane(Rank rank, size_t lane) {
    RankState& state = states_[rank];
    if (state.next[lane] == state.lanes[lane].size()) return false;
    const plan::ProgramSteps& steps = ranks_.at(rank);
    const size_t number = state.lanes[lane][state.next[lane]];
    const plan::ProgramStep& step = steps.steps[number];
    if (steps.lanes_overlap && step.waits_for >= 0) {
      const auto other = static_cast<size_t>(step.waits_for);
      if (!state.is_done[other]) return false;
      state.now[lane] = std::max(state.now[lane], schedule_[rank][other].end);
    }
    const auto* const collective = std::get_if<CollectiveStep>(&step.what);
    if (collective == nullptr) {
      Add(rank, number, state.now[lane], LocalMicros(step, steps));
      return true;
    }
    if (state.has_arrived) return false;
    state.has_arrived = true;
    if (++arrived_[{collective->number, collective->team.front()}] == collective->team.size()) {
      Meet(*collective);
    }
    return false;
  }

  void Add(Rank rank, size_t number, double begin, double micros) {
    RankState& state = states_[rank];
    const size_t lane = LaneOf(ranks_.at(rank), number);
    schedule_[rank][number] = {state.now[lane], begin, begin + micros};
    state.now[lane] = begin + micros;
    state.is_done[number] = true;
    ++state.next[lane];
  }

  // Of the collective that a rank has arrived at: in the last lane that there is.
  size_t CollectiveNumber(Rank rank) {
    const RankState& state = states_[rank];
    const size_t lane = ranks_.at(rank).lanes_overlap ? 1 : 0;
    return state.lanes[lane][state.next[lane]];
  }

  void Meet(const CollectiveStep& any) {
    double begin = 0;
    for (const Rank member : any.team) {
      const size_t lane = LaneOf(ranks_.at(member), CollectiveNumber(member));
      begin = std::max(begin, states_[member].now[lane]);
    }
    const double micros = CollectiveMicros(any);
    for (const Rank member : any.team) {
      states_[member].has_arrived = false;
      Add(member, CollectiveNumber(member), begin, micros);
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
    return call_micros_ / std::get<plan::CallStep>(step.what).part_of;
  }

  // Adds what the rank moves in its collectives. What a team does is counted once, by its first
  // rank.
  void CountTraffic(Rank rank, const plan::ProgramSteps& steps) {
    for (const plan::ProgramStep& step : steps.steps) {
      const auto* const collective = std::get_if<CollectiveStep>(&step.what);
      if (collective == nullptr) continue;
      const plan::StepBuffer& buffer = steps.buffers[static_cast<size_t>(collective->send.buffer)];
      const auto element_bytes = static_cast<double>(SizeOf(buffer.dtype));
      plan::Traffic traffic;
      if (collective->kind == OperationKind::kAllToAll) {
        traffic = SentAndReceived(*collective, rank, element_bytes);
      } else if (rank == collective->team.front()) {
        traffic = TeamTraffic(*collective, element_bytes);
      }
      team_traffic_[{collective->number, collective->team.front()}].Add(traffic);
      traffic_[collective->number].Add(traffic);
    }
  }

  plan::Traffic SentAndReceived(const CollectiveStep& step, Rank rank, double element_bytes) const {
    plan::Traffic traffic;
    const int node = topology_.NodeOf(rank);
    for (size_t i = 0; i < step.team.size(); ++i) {
      if (step.team[i] == rank) continue;
      const plan::Flux flux{static_cast<double>(step.recv_counts[i]) * element_bytes,
                            static_cast<double>(step.counts[i]) * element_bytes};
      plan::Traffic piece;
      piece.Of(rank) = flux;
      if (topology_.NodeOf(step.team[i]) != node && flux.Busiest() > 0) piece.nodes[node] = flux;
      traffic.Add(piece);
    }
    return traffic;
  }

  // Of one among parts, or of a reduction.
  plan::Traffic TeamTraffic(const CollectiveStep& step, double element_bytes) const {
    plan::Traffic traffic;
    if (step.kind == OperationKind::kAllReduce) {
      const double bytes = static_cast<double>(step.send.count) * element_bytes;
      plan::AddAllReduce(step.team, bytes, topology_, traffic);
      return traffic;
    }
    std::vector<double> parts;
    for (const int64_t count : step.counts) {
      parts.push_back(static_cast<double>(count) * element_bytes);
    }
    const auto add =
        step.kind == OperationKind::kAllGather ? plan::AddAllGather : plan::AddReduceScatter;
    add(step.team, parts, topology_, traffic);
    return traffic;
  }

  // As explain's table has it: teams that meet in one collective share the networks of their nodes.
  double CollectiveMicros(const CollectiveStep& step) const {
    plan::Traffic traffic = team_traffic_.at({step.number, step.team.front()});
    for (auto& [node, flux] : traffic.nodes) flux = traffic_.at(step.number).nodes.at(node);
    return costs_.LatencyOf(traffic) + costs_.MicrosecondsFor(traffic);
  }

  const std::map<Rank, plan::ProgramSteps>& ranks_;
  const plan::Topology& topology_;
  const plan::CostModel& costs_;
  const double call_micros_;
  std::map<Rank, std::vector<ScheduledStep>> schedule_;
  std::map<Rank, RankState> states_;
  std::deque<Rank> ready_;  // to go on
  // How many of a team, named by its collective and its first rank, have come.
  std::map<std::pair<int, Rank>, size_t> arrived_;
  // What each team, named the same way, moves; and what all teams of a collective do.
  std::map<std::pair<int, Rank>, plan::Traffic> team_traffic_;
  std::map<int, plan::Traffic> traffic_;
};

}  // namespace

std::map<Rank, std::vector<ScheduledStep>> Schedule(const std::map<Rank, plan::ProgramSteps>& ranks,
                                                    const plan::Topology& topology,
                                                    const plan::CostModel& costs,
                                                    double call_micros) {
  return Scheduler(ranks, topology, costs, call_micros).Run();
}

}  // namespace lockstep::cli::plan_file
