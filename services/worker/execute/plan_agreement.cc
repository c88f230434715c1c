#include "services/worker/execute/plan_agreement.h"

#include <algorithm>
#include <map>
#include <type_traits>
#include <utility>
#include <variant>

#include "runtime/collective/call.h"

namespace lockstep::worker {
namespace {

// Every rank's `mine`, in rank order; as part of `what`, which errors tell of.
template <typename T>
StatusOr<std::vector<T>> ShareAmongAll(collective::Communicator& cpus, T mine, const char* what,
                                       Deadline deadline) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto ranks = static_cast<size_t>(cpus.size());
  std::vector<T> all(ranks);
  if (ranks == 1) {
    all.front() = mine;
    return all;
  }
  const std::vector<int64_t> counts(ranks, static_cast<int64_t>(sizeof(T)));
  cpus.ReportAs(what);
  const Status shared =
      cpus.AllGather(Buffer{&mine, sizeof mine, DType::kUInt8},
                     Buffer{all.data(), ranks * sizeof(T), DType::kUInt8}, counts, deadline);
  cpus.ReportAs("");
  if (!shared.ok()) return shared;
  return all;
}

}  // namespace

std::vector<AgreedCollective> AgreedCollectivesOf(const PreparedProgram& prepared,
                                                  const std::vector<bool>& may_be_captured) {
  const plan::Program& program = *prepared.lowered.program;
  // For each operation, how many come before it, in the order of all ranks, that call a function
  // which may fail on its own.
  std::vector<int> calls_before(program.ops().size(), 0);
  int calls = 0;
  for (const size_t op : prepared.order) {
    calls_before[op] = calls;
    const auto* const call = std::get_if<plan::CallOp>(&program.ops()[op].what);
    if (call != nullptr && !may_be_captured[static_cast<size_t>(call->function)]) ++calls;
  }
  std::vector<AgreedCollective> agreed;
  std::map<std::vector<Rank>, int> known;  // by team: how many were before when it agreed last
  for (const plan::ProgramStep& step : prepared.steps.steps) {
    const auto* const collective = std::get_if<plan::CollectiveStep>(&step.what);
    if (collective == nullptr) continue;
    int& before = known[collective->team];
    const int now = calls_before[step.op];
    agreed.push_back({.what = {}, .asks_again = now > before});
    before = std::max(before, now);
  }
  return agreed;
}

StatusOr<std::vector<bool>> PlanAgreement::AgreeOnFunctions(std::vector<bool> may_be_captured,
                                                            Deadline deadline) {
  uint64_t hash = may_be_captured.size();
  for (const bool each : may_be_captured) hash = collective::Mix(hash, each ? 1 : 0);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<uint64_t> all,
                            ShareAmongAll<uint64_t>(cpus_, hash, "binding a plan", deadline));
  const bool are_alike =
      std::all_of(all.begin(), all.end(), [&](uint64_t theirs) { return theirs == hash; });
  if (!are_alike) may_be_captured.assign(may_be_captured.size(), false);
  return may_be_captured;
}

StatusOr<PlanAgreement::Verdict> PlanAgreement::Begin(Ready mine, Deadline deadline) {
  mine.plan = plan_;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<Ready> all,
                            ShareAmongAll<Ready>(cpus_, mine, "executing a plan", deadline));
  Verdict verdict{.is_known = true, .graphs = ~0U, .buffers = ~0U, .may_capture = true};
  for (size_t i = 0; i < all.size(); ++i) {
    const Ready& theirs = all[i];
    if (theirs.plan != mine.plan || theirs.command != mine.command) {
      return InvalidArgument(
          "the ranks disagree: rank ", cpus_.members()[static_cast<size_t>(cpus_.rank())],
          " executes a plan by command ", mine.command, ", and rank ", cpus_.members()[i],
          " executes ", theirs.plan == mine.plan ? "it" : "another plan", " by command ",
          theirs.command);
    }
    verdict.is_known &= theirs.has_moved == 0 && theirs.asks_each_time == 0;
    verdict.graphs &= theirs.graphs;
    verdict.buffers &= theirs.buffers;
    verdict.may_capture &= theirs.may_capture != 0;
  }
  return verdict;
}

StatusOr<bool> PlanAgreement::AllAreDone(bool is_done, Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::vector<uint8_t> all,
      ShareAmongAll<uint8_t>(cpus_, is_done ? 1 : 0, "capturing a plan", deadline));
  return std::all_of(all.begin(), all.end(), [](uint8_t theirs) { return theirs != 0; });
}

}  // namespace lockstep::worker
