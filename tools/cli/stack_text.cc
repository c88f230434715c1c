#include "tools/cli/stack_text.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "runtime/base/rank_text.h"
#include "tools/text/format.h"

namespace lockstep::cli {
namespace {

constexpr char kHeader[] = "  stack    ";
constexpr char kIndent[] = "           ";

// Equal stacks, or equal reasons why there is none.
struct StackGroup {
  const std::vector<std::string>* frames;
  const std::string* why_none;
  std::vector<Rank> ranks;
};

// Those of most ranks first; of as many, those of the lowest rank.
std::vector<StackGroup> GroupStacks(const std::vector<const WorkerStatus*>& workers) {
  std::map<std::pair<std::vector<std::string>, std::string>, size_t> known;
  std::vector<StackGroup> groups;
  for (const WorkerStatus* worker : workers) {
    if (worker->stack.empty() && worker->no_stack.empty()) continue;
    const auto [found, is_new] =
        known.try_emplace({worker->stack, worker->no_stack}, groups.size());
    if (is_new) groups.push_back({&worker->stack, &worker->no_stack, {}});
    groups[found->second].ranks.push_back(worker->rank);
  }
  std::stable_sort(groups.begin(), groups.end(), [](const StackGroup& a, const StackGroup& b) {
    return a.ranks.size() > b.ranks.size();
  });
  return groups;
}

// How many of the outermost frames of both are the same.
size_t CountShared(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  const auto end = std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend());
  return static_cast<size_t>(end.first - a.rbegin());
}

}  // namespace

void PrintStacks(std::ostream& out, const text::Style& style,
                 const std::vector<const WorkerStatus*>& workers) {
  const std::vector<StackGroup> groups = GroupStacks(workers);
  const bool is_one = groups.size() == 1 && groups.front().ranks.size() == workers.size();
  std::vector<Rank> left_out;
  for (size_t i = 0; i < groups.size(); ++i) {
    const StackGroup& group = groups[i];
    if (i >= kMostStacks) {
      left_out.insert(left_out.end(), group.ranks.begin(), group.ranks.end());
      continue;
    }
    bool is_first_line = true;
    const auto line = [&](const std::string& text) {
      out << style.Paint(text::Tint::kDim, std::exchange(is_first_line, false) ? kHeader : kIndent)
          << text << '\n';
    };
    if (!is_one) line(style.Paint(text::Tint::kDim, "of " + ListRanks(group.ranks) + ":"));
    if (!group.why_none->empty()) line(*group.why_none);
    const size_t shared = i == 0 ? 0 : CountShared(*groups.front().frames, *group.frames);
    for (size_t frame = 0; frame + shared < group.frames->size(); ++frame) {
      line((*group.frames)[frame]);
    }
    if (shared > 0) {
      line("... from " + (*group.frames)[group.frames->size() - shared] + " on as above");
    }
  }
  if (left_out.empty()) return;
  std::sort(left_out.begin(), left_out.end());
  out << style.Paint(text::Tint::kDim, kHeader) << ListRanks(left_out)
      << (left_out.size() == 1 ? " has " : " have ")
      << text::Plural(groups.size() - kMostStacks, "other stack")
      << "; `lockstep why --all` shows each\n";
}

}  // namespace lockstep::cli
