#include "runtime/control/replacement_advice.h"

#include <map>

#include "runtime/base/rank_text.h"

namespace lockstep {
namespace {

constexpr std::string_view kRank = "{rank}";

// "`kill -9 4711 4712` on node7"
std::string EndingOf(const std::string& host, const std::vector<int>& pids) {
  // The first process of a container takes no signal from within.
  if (pids.front() == 1) return "ending the container " + host;
  std::string command = "`kill -9";
  for (const int pid : pids) command += " " + std::to_string(pid);
  return command + "` on " + host;
}

}  // namespace

std::string HowToReplace(std::string_view hint, absl::Span<const Rank> ranks) {
  std::string text(hint);
  const bool is_one = ranks.size() == 1;
  bool names_the_rank = false;
  const std::string name = is_one ? std::to_string(ranks.front()) : "R";
  for (size_t at = text.find(kRank); at != std::string::npos; at = text.find(kRank, at)) {
    text.replace(at, kRank.size(), name);
    at += name.size();
    names_the_rank = true;
  }
  if (names_the_rank && !is_one) text += " (R: " + RankRanges(ranks) + ")";
  return text;
}

std::string HowToEnd(std::string_view hint, const std::vector<WorkerProcess>& processes) {
  std::vector<Rank> ranks;
  bool may_have_ended = false;
  std::map<std::string, std::vector<int>> pids;
  for (const WorkerProcess& process : processes) {
    ranks.push_back(process.rank);
    pids[process.host].push_back(process.pid);
    may_have_ended = may_have_ended || process.may_have_ended;
  }
  std::string text;
  for (const auto& [host, of_host] : pids) {
    text += (text.empty() ? "" : ", ") + EndingOf(host, of_host);
  }
  const bool is_one = ranks.size() == 1;
  text += is_one ? " ends it" : " ends them";
  if (may_have_ended) text += is_one ? " if it is still there" : " if they are still there";
  return hint.empty() ? text : text + "; then " + HowToReplace(hint, ranks);
}

}  // namespace lockstep
