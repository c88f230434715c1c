#include "runtime/client/trace.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "runtime/base/operations.h"

namespace lockstep {
namespace {

bool IsLeftTogether(std::string_view name) {
  const OperationFacts* const operation = FindOperationNamed(name);
  return operation != nullptr && IsLeftTogether(operation->kind);
}

}  // namespace

std::string TraceProcess::Name() const {
  switch (role) {
    case Role::kClient:
      return "client";
    case Role::kController:
      return "controller";
    case Role::kWorker:
      return "rank " + std::to_string(rank);
  }
  return "";
}

uint64_t TraceProcess::lost() const {
  uint64_t lost = 0;
  for (const TraceThread& thread : threads) lost += thread.lost;
  return lost;
}

size_t Trace::NumEvents() const {
  size_t events = 0;
  for (const TraceProcess& process : processes) {
    for (const TraceThread& thread : process.threads) events += thread.events.size();
  }
  return events;
}

uint64_t Trace::lost() const {
  uint64_t lost = 0;
  for (const TraceProcess& process : processes) lost += process.lost();
  return lost;
}

std::chrono::nanoseconds Trace::clock_uncertainty() const {
  std::chrono::nanoseconds worst{0};
  for (const TraceProcess& process : processes) {
    worst = std::max(worst, process.clock_uncertainty);
  }
  return worst;
}

void Trace::KeepSession(SessionId session) {
  for (TraceProcess& process : processes) {
    for (TraceThread& thread : process.threads) {
      std::erase_if(thread.events, [&](const trace::Event& event) {
        return event.session != 0 && event.session != session.value;
      });
    }
  }
}

std::vector<PeerWait> FindPeerWaits(const Trace& trace) {
  struct Member {
    size_t process;
    const trace::Event* event;
  };
  // By session, command and lowest rank: the same for all members of one collective, and no other.
  std::map<std::tuple<uint32_t, uint64_t, Rank>, std::vector<Member>> collectives;
  for (size_t i = 0; i < trace.processes.size(); ++i) {
    const TraceProcess& process = trace.processes[i];
    if (process.role != TraceProcess::Role::kWorker || process.threads.empty()) continue;
    for (const trace::Event& event : process.threads.front().events) {
      if (event.kind != trace::Kind::kCollective || event.ranks < 2 || event.unfinished) continue;
      if (!IsLeftTogether(event.name)) continue;
      collectives[{event.session, event.command, event.first}].push_back({i, &event});
    }
  }
  std::vector<PeerWait> waits;
  for (const auto& [name, members] : collectives) {
    if (members.size() != members.front().event->ranks) continue;
    const Member& last = *std::max_element(
        members.begin(), members.end(),
        [](const Member& a, const Member& b) { return a.event->begin < b.event->begin; });
    const TraceProcess& last_process = trace.processes[last.process];
    for (const Member& member : members) {
      const auto sure =
          last_process.clock_uncertainty + trace.processes[member.process].clock_uncertainty;
      const int64_t end = std::min(last.event->begin, member.event->end);
      if (end - member.event->begin <= sure.count()) continue;
      waits.push_back({member.process, member.event->begin, end, last_process.rank});
    }
  }
  return waits;
}

}  // namespace lockstep
