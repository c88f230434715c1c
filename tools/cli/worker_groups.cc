#include "tools/cli/worker_groups.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <tuple>

#include "runtime/base/quantity.h"
#include "tools/text/format.h"

namespace lockstep::cli {
namespace {

using Kind = WorkerActivity::Kind;

// Without times, which differ from one to the next: "no heartbeat for # ms".
std::string WithoutTimes(const std::string& reason) {
  std::string text;
  for (size_t i = 0; i < reason.size();) {
    size_t end = i;
    while (end < reason.size() && std::isdigit(static_cast<unsigned char>(reason[end])) != 0) ++end;
    if (end > i && reason.compare(end, 3, " ms") == 0) {
      text += '#';
      i = end;
    }
    text += reason[i++];
  }
  return text;
}

// Those that have taken far fewer batches than others: what a heartbeat tells is some hundred
// milliseconds old, so all differ a little.
std::vector<bool> FindBehind(const std::vector<WorkerStatus>& workers) {
  constexpr uint64_t kUsual = 16;
  constexpr uint64_t kTimesTheMedian = 4;
  uint64_t most = 0;
  for (const WorkerStatus& worker : workers) most = std::max(most, worker.activity.received);
  std::vector<uint64_t> lags;
  for (const WorkerStatus& worker : workers) {
    if (worker.state == WorkerState::kReady) lags.push_back(most - worker.activity.received);
  }
  std::vector<bool> behind(workers.size(), false);
  if (lags.empty()) return behind;
  const auto middle = lags.begin() + static_cast<std::ptrdiff_t>(lags.size() / 2);
  std::nth_element(lags.begin(), middle, lags.end());
  const uint64_t usual = kTimesTheMedian * *middle + kUsual;
  for (size_t i = 0; i < workers.size(); ++i) {
    behind[i] =
        workers[i].state == WorkerState::kReady && most - workers[i].activity.received > usual;
  }
  return behind;
}

// The smaller, the sooner it has to be seen.
int UrgencyOf(const WorkerGroup& group) {
  const WorkerStatus& worker = group.front();
  if (worker.state == WorkerState::kLost) return 0;
  if (worker.stuck) return 1;
  if (group.is_apart) return 2;
  return worker.state == WorkerState::kReady ? 4 : 3;
}

}  // namespace

const WorkerStatus& WorkerGroup::longest() const {
  return **std::max_element(workers.begin(), workers.end(),
                            [](const WorkerStatus* a, const WorkerStatus* b) {
                              return a->activity.since < b->activity.since;
                            });
}

std::vector<Rank> WorkerGroup::ranks() const {
  std::vector<Rank> ranks;
  for (const WorkerStatus* worker : workers) ranks.push_back(worker->rank);
  return ranks;
}

std::vector<WorkerGroup> GroupWorkers(const std::vector<WorkerStatus>& workers,
                                      const std::vector<bool>& apart) {
  using Key = std::tuple<WorkerState, bool, bool, std::string, std::string, std::string, int,
                         uint32_t, std::string>;
  const std::vector<bool> behind = FindBehind(workers);
  std::map<Key, size_t> known;
  std::vector<WorkerGroup> groups;
  for (size_t i = 0; i < workers.size(); ++i) {
    const WorkerStatus& worker = workers[i];
    const bool lasts = DoesWhatLasts(worker);
    const bool is_apart = behind[i] || (i < apart.size() && apart[i]);
    const Key key = {worker.state,
                     worker.stuck,
                     is_apart,
                     KindOfDevice(worker.device),
                     worker.backend,
                     WithoutTimes(LostBecause(worker, /*is_one=*/false)),
                     lasts ? static_cast<int>(worker.activity.kind) : 0,
                     lasts ? worker.activity.session.value : 0,
                     lasts ? worker.activity.WhatAndPlace() : ""};
    const auto [found, is_new] = known.try_emplace(key, groups.size());
    if (is_new) groups.push_back({{}, is_apart});
    groups[found->second].workers.push_back(&worker);
  }
  std::stable_sort(groups.begin(), groups.end(), [](const WorkerGroup& a, const WorkerGroup& b) {
    const int urgency = UrgencyOf(a);
    if (urgency != UrgencyOf(b)) return urgency < UrgencyOf(b);
    return a.size() < b.size();
  });
  return groups;
}

bool DoesWhatLasts(const WorkerStatus& worker) {
  constexpr std::chrono::milliseconds kLasts{200};
  return worker.activity.kind != Kind::kNone && worker.activity.since >= kLasts;
}

std::string KindOfDevice(const std::string& device) { return device.substr(0, device.find(':')); }

bool IsSameWork(const WorkerStatus& a, const WorkerStatus& b) {
  return a.activity.kind == b.activity.kind && a.activity.session == b.activity.session &&
         a.activity.what == b.activity.what && a.activity.place == b.activity.place;
}

std::string DescribeWork(const std::vector<const WorkerStatus*>& workers) {
  const WorkerActivity* longest = &workers.front()->activity;
  uint64_t first = longest->command;
  uint64_t last = longest->command;
  for (const WorkerStatus* worker : workers) {
    if (worker->activity.since > longest->since) longest = &worker->activity;
    first = std::min(first, worker->activity.command);
    last = std::max(last, worker->activity.command);
  }
  if (first == last || longest->kind == Kind::kNone) return longest->Describe();
  return "commands " + CountRange(first, last) +
         (longest->what.empty() ? "" : " (" + longest->WhatAndPlace() + ")") + " of session " +
         std::to_string(longest->session.value) + " for up to " + RoundedDuration(longest->since);
}

std::string LostBecause(const WorkerStatus& worker, bool is_one) {
  const std::string its_process = "its process " + std::to_string(worker.pid);
  std::string reason = worker.reason;
  if (!is_one && reason.starts_with(its_process)) {
    reason.replace(0, its_process.size(), "each process");
  }
  return reason;
}

bool IsSameLoss(const WorkerStatus& a, const WorkerStatus& b) {
  return WithoutTimes(LostBecause(a, false)) == WithoutTimes(LostBecause(b, false));
}

std::string HostsOf(const std::vector<const WorkerStatus*>& workers, size_t most) {
  std::vector<std::string> hosts;
  for (const WorkerStatus* worker : workers) {
    if (!worker->host.empty()) hosts.push_back(worker->host);
  }
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  std::string names;
  for (size_t i = 0; i < hosts.size() && i < most; ++i) names += (i == 0 ? "" : ", ") + hosts[i];
  if (hosts.size() > most) {
    names += " and " + text::Plural(hosts.size() - most, "more host");
  }
  return names;
}

std::string CountRange(uint64_t least, uint64_t most) {
  const std::string first = text::FormatCount(least);
  return least == most ? first : first + "-" + text::FormatCount(most);
}

}  // namespace lockstep::cli
