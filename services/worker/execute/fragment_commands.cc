#include "services/worker/execute/fragment_commands.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/container/inlined_vector.h"
#include "runtime/base/log.h"
#include "runtime/fragment/call_codec.h"
#include "runtime/tensor/tensor.h"
#include "services/worker/execute/call_tensors.h"
#include "services/worker/execute/fragment_arguments.h"
#include "services/worker/execute/function_call.h"

namespace lockstep::worker {
namespace {

using tensor::Tensor;

// One call on this rank: its arguments where the fragment computes, and its results.
class CompiledCall {
 public:
  using Values = capnp::List<wire::Value>::Reader;

  CompiledCall(SessionState& session, const tensor::Processors& places, PreparedCall& prepared)
      : session_(session),
        home_(places.Home()),
        prepared_(prepared),
        signature_(prepared.call().signature()),
        tensors_(places, prepared.computes_on_device()),
        scalars_(signature_.arguments.size()),
        data_(signature_.arguments.size(), nullptr) {}

  Status TakeArguments(Values values) {
    for (size_t i = 0; i < data_.size(); ++i) {
      const wire::Value::Reader value = values[static_cast<unsigned>(i)];
      const Status taken = signature_.arguments[i].type.ndim() > 0 || value.isRegister()
                               ? TakeTensor(i, value)
                               : TakeNumber(i, value);
      if (!taken.ok()) [[unlikely]]
        return Annotate(taken, ArgumentText(i, signature_));
    }
    return OkStatus();
  }

  // `command` is its number, by which the session gives it up.
  Status Compute(CallResources resources, uint64_t command) {
    LOCKSTEP_RETURN_IF_ERROR(prepared_.FindSizes(data_, resources));
    LOCKSTEP_RETURN_IF_ERROR(session_.registers().CheckRoom(prepared_.result_bytes()));
    resources.most_bytes -= std::min(resources.most_bytes, prepared_.result_bytes());
    absl::InlinedVector<void*, kUsual> into;
    for (size_t i = 0; i < signature_.results.size(); ++i) {
      LOCKSTEP_ASSIGN_OR_RETURN(
          Tensor made, tensors_.Make(signature_.results[i].type.dtype, prepared_.ResultShape(i)));
      into.push_back(made.data());
      results_.push_back(std::move(made));
    }
    resources.abort = session_.BeginPolling(command);
    if (resources.abort == nullptr) return Aborted("the session's work was given up");
    const absl::Cleanup end = [this] { session_.EndPolling(); };
    return prepared_.Run(data_, into, resources);
  }

  // What the GPU reads and writes for it.
  GpuMemory TakeGpuMemory() { return tensors_.TakeGpuMemory(); }

  Status Give(capnp::List<uint64_t>::Reader registers) {
    for (unsigned i = 0; i < registers.size(); ++i) {
      const uint64_t packed = registers[i];
      if (packed == 0) continue;
      LOCKSTEP_ASSIGN_OR_RETURN(Tensor home, BringHome(std::move(results_[i])));
      LOCKSTEP_RETURN_IF_ERROR(session_.Write(RegisterId::FromPacked(packed), std::move(home),
                                              prepared_.ResultLayout(i)));
    }
    return OkStatus();
  }

 private:
  // Arguments and results, for which no memory is taken.
  static constexpr size_t kUsual = 4;

  Status TakeNumber(size_t i, wire::Value::Reader value) {
    LOCKSTEP_ASSIGN_OR_RETURN(scalars_[i], ReadScalar(value, prepared_.call().inputs()[i].dtype));
    data_[i] = scalars_[i].bytes.data();
    return OkStatus();
  }

  StatusOr<Tensor> BringHome(Tensor result) const {
    if (&home_ == &tensors_.place()) [[likely]]
      return result;
    return tensor::MoveTo(home_, tensors_.place(), result);
  }

  // Which is this rank's part of the argument.
  Status TakeTensor(size_t i, wire::Value::Reader value) {
    if (!value.isRegister()) return InvalidArgument("it is a tensor, and no register is given");
    // What is in a register stays there until the call is over.
    LOCKSTEP_ASSIGN_OR_RETURN(const Tensor* const tensor,
                              ReadPart(session_, prepared_, i, value.getRegister()));
    LOCKSTEP_ASSIGN_OR_RETURN(data_[i],
                              tensors_.Take(*tensor, signature_.arguments[i].type.ndim() == 0));
    return OkStatus();
  }

  SessionState& session_;
  tensor::Processor& home_;  // where results lie when it is over
  PreparedCall& prepared_;
  const fragment::Signature& signature_;
  CallTensors tensors_;
  // By argument: what is held for the call, and where it lies.
  absl::InlinedVector<Scalar, kUsual> scalars_;
  absl::InlinedVector<const void*, kUsual> data_;
  absl::InlinedVector<Tensor, kUsual> results_;
};

Status CheckCounts(const fragment::Signature& signature, size_t arguments, size_t results) {
  if (arguments == signature.arguments.size() && results == signature.results.size()) {
    return OkStatus();
  }
  return InvalidArgument("`", signature.function, "` has ", signature.num_arguments(),
                         " arguments and ", signature.num_results(), " results, and the command ",
                         arguments, " and ", results);
}

}  // namespace

Status FragmentCommands::Run(SessionState& session, wire::Command::RunFragment::Reader run,
                             const tensor::Processors& places, CallFunction call_function) {
  StatusOr<Call*> found = Find(session, run);
  if (!found.ok()) {
    running_.Name("fragment");
    return found.status();
  }
  Call& call = **found;
  activity_.Name(call.name, WorkerActivity::Kind::kCommand);
  if (recorder_ != nullptr) recorder_->spans().Name(call.name, trace::Kind::kCommand);
  running_.function = call.name;
  const auto arguments = run.getArguments();
  const auto results = run.getResults();
  LOCKSTEP_RETURN_IF_ERROR(
      CheckCounts(call.prepared.call().signature(), arguments.size(), results.size()));
  CallResources resources = Resources(session, places, call.prepared.computes_on_device());
  if (call.function != nullptr && call.prepared.call().Calls(rank_)) {
    LOCKSTEP_RETURN_IF_ERROR(call.prepared.FindSizes({}, resources));
    return RunFunction(session, places, call.prepared, arguments, results,
                       [&](absl::Span<const registers::Value> values, registers::Value* result) {
                         return call_function(*call.function, values, result);
                       });
  }
  CompiledCall compiled(session, places, call.prepared);
  if (call.function == nullptr) LOCKSTEP_RETURN_IF_ERROR(compiled.TakeArguments(arguments));
  LOCKSTEP_RETURN_IF_ERROR(compiled.Compute(resources, running_.number));
  gpu_memory_ = compiled.TakeGpuMemory();
  return compiled.Give(results);
}

Status FragmentCommands::RunInPlan(SessionState& session, BoundFragment& fragment,
                                   absl::Span<const registers::Value> arguments,
                                   const tensor::Processors& places) {
  const Status status =
      fragment.Run(session, places, arguments,
                   Resources(session, places, fragment.computes_on_device()), running_.number);
  gpu_memory_ = fragment.TakeGpuMemory();
  return status;
}

CallResources FragmentCommands::Resources(const SessionState& session,
                                          const tensor::Processors& places, bool on_device) {
  CallResources resources{places.host->allocator(), session.registers().room_bytes()};
  if (on_device) {
    resources.device = places.gpu;
  } else {
    resources.matmul = Blas();
    resources.threads = &threads_;
  }
  return resources;
}

fragment::MatmulFunction FragmentCommands::Blas() {
  if (!blas_.has_value()) {
    const StatusOr<fragment::MatmulFunction> found = fragment::FindBlas();
    if (!found.ok()) {
      log::Info("fragments multiply matrices by themselves: ", Message(found.status()));
    }
    blas_ = found.ok() ? *found : nullptr;
  }
  return *blas_;
}

StatusOr<SessionFragments::Call*> FragmentCommands::Find(SessionState& session,
                                                         wire::Command::RunFragment::Reader run) {
  if (!run.hasCall()) [[likely]]
    return session.fragments().FindCall(run.getNumber());
  const wire::NewFragmentCall::Reader made = run.getCall();
  const fragment::ObjectKey key{made.getFragment().getHigh(), made.getFragment().getLow()};
  LOCKSTEP_ASSIGN_OR_RETURN(const SessionFragments::Entry* const fragment,
                            session.fragments().Find(key));
  const auto bytes = made.getCall();
  StatusOr<Call> call =
      Prepare(*fragment, {reinterpret_cast<const std::byte*>(bytes.begin()), bytes.size()});
  if (!call.ok()) return Annotate(call.status(), fragment->name);
  return session.AddFragmentCall(run.getNumber(), *std::move(call), bytes.size());
}

StatusOr<SessionFragments::Call> FragmentCommands::Prepare(const SessionFragments::Entry& fragment,
                                                           absl::Span<const std::byte> call) const {
  LOCKSTEP_ASSIGN_OR_RETURN(fragment::CallParts parts, fragment::DecodeCall(call, world_size_));
  std::vector<Rank> ranks(static_cast<size_t>(world_size_));
  std::iota(ranks.begin(), ranks.end(), 0);
  const bool is_function = fragment.function != nullptr;
  fragment::Signature signature;
  if (is_function) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        signature, fragment::SignatureOfFunction(fragment.name, parts.inputs, parts.outputs));
  } else {
    signature = fragment.object->signature();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(
      fragment::PlacedCall placed,
      fragment::PlacedCall::Make(is_function ? fragment::Kind::kFunction : fragment::Kind::kMlir,
                                 std::move(signature), std::move(ranks), std::move(parts.inputs),
                                 std::move(parts.outputs)));
  return Call{fragment.name, fragment.function,
              PreparedCall(std::move(placed), rank_, fragment.object)};
}

}  // namespace lockstep::worker
