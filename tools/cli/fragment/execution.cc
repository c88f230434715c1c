#include "tools/cli/fragment/execution.h"

#include <cctype>
#include <numeric>
#include <string>
#include <utility>

#include "runtime/base/quantity.h"
#include "tools/cli/command_line.h"
#include "tools/cli/progress.h"

namespace lockstep::cli {
namespace {

using Clock = std::chrono::steady_clock;

Execution::Microseconds Since(Clock::time_point start) {
  return std::chrono::duration_cast<Execution::Microseconds>(Clock::now() - start);
}

// What a bar counts data in: at least one.
uint64_t MebibytesOf(size_t bytes) { return (bytes >> 20) + 1; }

// "argument 1 of `f` is ..." with the words by which the argument was given.
Status WithWords(const Status& status, const std::vector<GivenInput>& inputs) {
  constexpr std::string_view kArgument = "argument ";
  const std::string message = Message(status);
  if (!message.starts_with(kArgument)) return status;
  size_t end = kArgument.size();
  size_t place = 0;
  while (end < message.size() && std::isdigit(static_cast<unsigned char>(message[end])) != 0) {
    place = place * 10 + static_cast<size_t>(message[end++] - '0');
  }
  if (end == kArgument.size() || place >= inputs.size()) return status;
  const GivenInput& input = inputs[place];
  const std::string words = input.name.empty() ? input.text : input.name + "=" + input.text;
  return {status.code(), message.substr(0, end) + " (" + words + ")" + message.substr(end)};
}

// As the call takes it: a tensor is known by the register that it was placed in.
FragmentInput InputOf(const GivenInput& input, const DRef& placed) {
  if (input.tensor() != nullptr) return {placed, input.split};
  if (const auto* truth = std::get_if<bool>(&input.value)) return *truth;
  if (const auto* integer = std::get_if<int64_t>(&input.value)) return *integer;
  return std::get<double>(input.value);
}

StatusOr<fragment::PlacedCall> CheckCall(const fragment::Fragment& fragment,
                                         const fragment::Signature& signature, int workers,
                                         const std::vector<GivenInput>& inputs,
                                         const std::vector<GivenOutput>& outputs) {
  std::vector<Rank> ranks(static_cast<size_t>(workers));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<fragment::Input> given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (const HostTensor* tensor = inputs[i].tensor()) {
      given.push_back({tensor->dtype, tensor->shape, inputs[i].split});
    } else {
      // Whether a number fits is checked where it is sent.
      given.emplace_back();
      if (i < signature.arguments.size()) given[i].dtype = signature.arguments[i].type.dtype;
    }
  }
  std::vector<fragment::Output> wanted;
  wanted.reserve(outputs.size());
  for (const GivenOutput& output : outputs) wanted.push_back({output.combine, output.shape});
  return fragment::PlacedCall::Make(fragment.kind(), signature, std::move(ranks), std::move(given),
                                    std::move(wanted));
}

// Results that nothing was said of, by their places.
std::vector<GivenOutput> AllResults(const fragment::Signature& signature) {
  std::vector<GivenOutput> outputs;
  for (int i = 0; i < signature.num_results(); ++i) {
    outputs.emplace_back().name =
        signature.num_results() == 1 ? "result" : "result" + std::to_string(i);
  }
  return outputs;
}

StatusOr<std::vector<DRef>> PlaceAll(Session& session, const fragment::PlacedCall& call,
                                     const std::vector<GivenInput>& inputs) {
  uint64_t total = 0;
  for (const GivenInput& input : inputs) {
    if (input.tensor() != nullptr) total += MebibytesOf(input.tensor()->data.size());
  }
  WatchedProgressBar bar(total, CanShowProgress());
  uint64_t done = 0;
  std::vector<DRef> placed(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const HostTensor* const tensor = inputs[i].tensor();
    if (tensor == nullptr) continue;
    bar.Advance(done, "MiB: placing " + inputs[i].text);
    LOCKSTEP_ASSIGN_OR_RETURN(placed[i],
                              session.Place(*tensor, *call.ArgumentLayout(static_cast<int>(i))));
    LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
    done += MebibytesOf(tensor->data.size());
  }
  return placed;
}

Status CollectOne(Session& session, const DRef& ref, ExecutedResult& result) {
  StatusOr<plan::Layout> layout = session.LayoutOf(ref);
  if (layout.ok()) {
    result.layout = *std::move(layout);
    LOCKSTEP_ASSIGN_OR_RETURN(result.value, session.Collect(ref));
    return OkStatus();
  }
  // It has none: each worker has its own.
  if (layout.status().code() != StatusCode::kInvalidArgument) return layout.status();
  std::vector<RankValue> values;
  for (Rank rank = 0; rank < session.num_workers(); ++rank) {
    LOCKSTEP_ASSIGN_OR_RETURN(Value value, session.DebugGet(ref, rank));
    values.push_back({rank, std::move(value)});
  }
  result.value = std::move(values);
  return OkStatus();
}

}  // namespace

StatusOr<Execution> Execute(Session& session, ExecuteRequest request) {
  Clock::time_point start = Clock::now();
  StatusOr<CompiledFragment> compiled = [&] {
    const Spinner spinner("compiling " + request.fragment.name(), CanShowProgress());
    return session.Compile(request.fragment);
  }();
  // What it says is wrong, or more than fragments can do.
  if (compiled.status().code() == StatusCode::kInvalidArgument ||
      compiled.status().code() == StatusCode::kUnimplemented) {
    return WithExitCode(compiled.status(), ExitCode::kUsage);
  }
  LOCKSTEP_RETURN_IF_ERROR(compiled.status());
  const Execution::Microseconds compiling = Since(start);

  const fragment::Signature& signature = compiled->signature();
  std::vector<std::string> names;
  if (!request.fragment.is_bytecode()) names = ArgumentNames(request.fragment.source());
  StatusOr<std::vector<GivenInput>> ordered =
      InArgumentOrder(std::move(request.inputs), names, signature);
  if (!ordered.ok()) return WithExitCode(ordered.status(), ExitCode::kUsage);
  if (request.outputs.empty()) request.outputs = AllResults(signature);
  StatusOr<fragment::PlacedCall> call =
      CheckCall(request.fragment, signature, session.num_workers(), *ordered, request.outputs);
  if (!call.ok()) return WithExitCode(WithWords(call.status(), *ordered), ExitCode::kUsage);
  Execution execution{*std::move(call), *std::move(ordered)};
  execution.loads = compiled->loads();
  execution.compiling = compiling;

  start = Clock::now();
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<DRef> placed,
                            PlaceAll(session, execution.call, execution.inputs));
  execution.placing = Since(start);

  std::vector<FragmentInput> inputs;
  for (size_t i = 0; i < placed.size(); ++i) {
    inputs.push_back(InputOf(execution.inputs[i], placed[i]));
  }
  std::vector<DRef> results;
  {
    const auto times = static_cast<uint64_t>(request.times);
    WatchedProgressBar bar(times, CanShowProgress());
    for (uint64_t i = 0; i < times; ++i) {
      bar.Advance(i, "executing " + signature.function);
      start = Clock::now();
      StatusOr<std::vector<DRef>> made =
          session.Execute(*compiled, inputs, execution.call.outputs());
      if (!made.ok()) {
        // What does not fit is seen before it is sent; what fails on a worker is told by SyncAll().
        const bool is_wrong = i == 0 && made.status().code() == StatusCode::kInvalidArgument;
        const Status status = WithWords(made.status(), execution.inputs);
        return is_wrong ? WithExitCode(status, ExitCode::kUsage) : status;
      }
      results = *std::move(made);
      LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
      execution.executing.push_back(Since(start));
    }
  }

  start = Clock::now();
  WatchedProgressBar bar(results.size(), CanShowProgress());
  for (size_t i = 0; i < results.size(); ++i) {
    ExecutedResult& result = execution.results.emplace_back();
    result.output = std::move(request.outputs[i]);
    bar.Advance(i, "collecting " + result.output.name);
    LOCKSTEP_RETURN_IF_ERROR(CollectOne(session, results[i], result));
  }
  execution.collecting = Since(start);
  return execution;
}

}  // namespace lockstep::cli
