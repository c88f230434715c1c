#include "runtime/collective/call.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "runtime/base/rank_text.h"

namespace lockstep::collective {
namespace {

std::string_view RootPhrase(Kind kind) {
  switch (kind) {
    case Kind::kBroadcast:
    case Kind::kScatter:
      return " from rank ";
    case Kind::kReduce:
    case Kind::kGather:
      return " to rank ";
    default:
      return "";
  }
}

}  // namespace

std::string Describe(const Call& call, uint64_t count, absl::Span<const int64_t> counts,
                     Rank root) {
  std::ostringstream text;
  text << Name(call.kind);
  if (call.kind == Kind::kBarrier) return text.str();
  if (Reduces(call.kind) && static_cast<int>(call.op) < kReduceOpCount) text << ' ' << call.op;
  text << " of ";
  // The total of an all-to-all differs from rank to rank, and says nothing.
  if (call.kind != Kind::kAllToAll) text << count << ' ';
  const bool known = static_cast<int>(call.dtype) < kDTypeCount;
  text << (known ? Name(call.dtype) : std::string_view("an unknown dtype"));
  if (call.uneven != 0) {
    text << " in parts of [";
    for (size_t i = 0; i < counts.size(); ++i) text << (i == 0 ? "" : ", ") << counts[i];
    text << ']';
  }
  const std::string_view phrase = RootPhrase(call.kind);
  if (!phrase.empty()) text << phrase << root;
  return text.str();
}

std::string DescribeDisagreement(absl::Span<const std::string> descriptions,
                                 absl::Span<const Rank> world_ranks) {
  std::ostringstream text;
  text << "the ranks disagree: ";
  std::vector<bool> told(descriptions.size(), false);
  for (size_t i = 0; i < descriptions.size(); ++i) {
    if (told[i]) continue;
    std::vector<Rank> alike;
    for (size_t j = i; j < descriptions.size(); ++j) {
      if (descriptions[j] != descriptions[i]) continue;
      alike.push_back(world_ranks[j]);
      told[j] = true;
    }
    std::sort(alike.begin(), alike.end());
    text << (i == 0 ? "" : "; ") << ListRanks(alike) << (alike.size() == 1 ? " calls " : " call ")
         << descriptions[i];
  }
  return text.str();
}

Status DescribeAbsence(std::vector<Rank> ended, std::vector<Rank> left, std::vector<Rank> late,
                       const std::string& what) {
  for (auto* ranks : {&ended, &left, &late}) std::sort(ranks->begin(), ranks->end());
  if (!ended.empty()) return Unavailable(ListRanks(ended), " ended during ", what);
  if (!left.empty()) return Unavailable(ListRanks(left), " gave up during ", what);
  return DeadlineExceeded(ListRanks(late), " did not come to ", what, " in time");
}

}  // namespace lockstep::collective
