#include "services/worker/execute/overlapped_execution.h"

#include <chrono>
#include <variant>

#include "runtime/trace/event.h"
#include "services/worker/execute/step_runner.h"

namespace lockstep::worker {

using plan::Lane;

bool OverlappedExecution::AwaitExchanges(int step) {
  for (; told_ < steps().size() && static_cast<int>(told_) <= step; ++told_) {
    const plan::ProgramStep& awaited = steps()[told_];
    const auto number = static_cast<int>(told_);
    if (awaited.lane != Lane::kCommunication || progress_.IsDone(awaited.lane, number)) continue;
    const auto* const collective = std::get_if<plan::CollectiveStep>(&awaited.what);
    if (collective != nullptr) {
      calls_.TellOfStep(told_);
      calls_.TellOfWait(*collective);
    }
    if (!progress_.Await(awaited.lane, number)) return false;
  }
  return !progress_.is_given_up();
}

Status OverlappedExecution::Compute() {
  for (size_t i = 0; i < steps().size(); ++i) {
    const plan::ProgramStep& step = steps()[i];
    if (step.lane != Lane::kCompute) continue;
    if (step.waits_for >= 0 && !AwaitExchanges(step.waits_for)) return OkStatus();
    if (progress_.is_given_up()) return OkStatus();
    plan_.tensors.DropBefore(i);
    const Status status = calls_.RunNumber(i);
    if (!status.ok()) return Annotate(status, plan_.DescribeStep(i));
    progress_.Finish(Lane::kCompute, static_cast<int>(i));
  }
  progress_.FinishAll(Lane::kCompute);
  return OkStatus();
}

Status OverlappedExecution::ExchangeStep(const plan::ProgramStep& step) {
  if (const auto* copy = std::get_if<plan::CopyStep>(&step.what)) {
    return RunCopy(*copy, plan_.tensors.memory(), SizeOf(plan_.DTypeOf(copy->to_buffer)),
                   *plan_.place);
  }
  if (const auto* fill = std::get_if<plan::FillStep>(&step.what)) {
    return RunFill(*fill, plan_.tensors.memory(), plan_.DTypeOf(fill->to.buffer), *plan_.place);
  }
  const auto& collective = std::get<plan::CollectiveStep>(step.what);
  return RunCollective(collective, plan_.tensors.memory(), plan_.DTypeOf(collective.send.buffer),
                       *plan_.teams[next_collective_++]->cpus,
                       Deadline::After(worker_.context.timeout));
}

void OverlappedExecution::Exchange() {
  for (size_t i = 0; i < steps().size(); ++i) {
    const plan::ProgramStep& step = steps()[i];
    if (step.lane != Lane::kCommunication) continue;
    if (step.waits_for >= 0 && !progress_.Await(Lane::kCompute, step.waits_for)) return;
    const int64_t began = trace::Now();
    const Status status = ExchangeStep(step);
    if (!status.ok()) {
      // An error of this lane that follows from one of the other is not the cause.
      if (!progress_.GiveUp()) return;
      exchanged_ = Annotate(status, plan_.DescribeStep(i));
      // This rank says so itself when the function that it is in returns, which may be long. Until
      // then the ranks of other teams would wait for it, and blame it for not coming.
      for (const Communicators* const team : plan_.teams) team->cpus->Leave(exchanged_);
      return;
    }
    plan_.exchange_times[next_time_++] = {began, trace::Now()};
    progress_.Finish(Lane::kCommunication, static_cast<int>(i));
  }
  progress_.FinishAll(Lane::kCommunication);
}

void OverlappedExecution::TellOfExchanges() const {
  size_t next = 0;
  size_t next_team = 0;
  for (size_t i = 0; i < steps().size() && next < next_time_; ++i) {
    if (steps()[i].lane != Lane::kCommunication) continue;
    const auto [began, ended] = plan_.exchange_times[next++];
    calls_.RecordStep(i, began, ended);
    const auto* const collective = std::get_if<plan::CollectiveStep>(&steps()[i].what);
    if (collective == nullptr) continue;
    calls_.CountCollective(*collective, *plan_.teams[next_team++],
                           std::chrono::nanoseconds(ended - began));
  }
}

Status OverlappedExecution::Run() {
  lane_.Begin([this] { Exchange(); });
  const Status computed = Compute();
  if (computed.ok()) {
    AwaitExchanges(static_cast<int>(steps().size()));
  } else if (progress_.GiveUp()) {
    // It may wait for ranks that wait for this one.
    for (const Communicators* const team : plan_.teams) team->cpus->Abort(computed);
  }
  lane_.Await();
  TellOfExchanges();
  if (computed.ok() && exchanged_.ok()) {
    plan_.tensors.DropBefore(steps().size());
    return OkStatus();
  }
  plan_.tensors.DropAll();
  return exchanged_.ok() ? computed : exchanged_;
}

}  // namespace lockstep::worker
