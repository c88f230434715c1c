#include "services/worker/execute/bound_fragment.h"

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <variant>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/container/inlined_vector.h"
#include "runtime/fragment/plan_call.h"
#include "runtime/tensor/tensor.h"

namespace lockstep::worker {
namespace {

using tensor::Tensor;

// Of the number, which fragment::NumberFor() has made of that dtype.
Scalar ScalarOf(const plan::Literal& number, DType dtype) {
  Scalar scalar;
  if (const auto* const truth = std::get_if<bool>(&number)) {
    scalar.Set<uint8_t>(*truth ? 1 : 0);
  } else if (const auto* const integer = std::get_if<int64_t>(&number)) {
    dtype == DType::kInt32 ? scalar.Set(static_cast<int32_t>(*integer)) : scalar.Set(*integer);
  } else if (const auto* const real = std::get_if<double>(&number)) {
    dtype == DType::kFloat32 ? scalar.Set(static_cast<float>(*real)) : scalar.Set(*real);
  }
  return scalar;
}

// Where the results of one call are computed: in the plan's tensors, or in others that are copied
// there.
class PlannedResults {
 public:
  PlannedResults(const tensor::Processors& places, CallTensors& tensors)
      : places_(places), tensors_(tensors) {}

  // Where a result is computed that is to lie in `home`.
  StatusOr<void*> MakeRoom(const SessionState& session, const Tensor& home) {
    if (places_.Of(home.device()) == &tensors_.place()) {
      tensors_.NoteWrite(home);
      return home.data();
    }
    LOCKSTEP_RETURN_IF_ERROR(session.registers().CheckRoom(home.size_bytes()));
    LOCKSTEP_ASSIGN_OR_RETURN(Tensor made, tensors_.Make(home.dtype(), home.shape()));
    copied_.push_back({made, &home});
    return made.data();
  }

  // What was computed elsewhere comes to its tensor.
  Status BringHome() {
    for (const Copied& one : copied_) {
      const size_t size = one.made.size_bytes();
      if (size == 0) continue;
      const bool is_on_gpu = one.home->device().type != DeviceType::kCpu;
      LOCKSTEP_RETURN_IF_ERROR(
          is_on_gpu ? places_.gpu->FromHost(one.home->data(), one.made.data(), size)
                    : tensors_.place().ToHost(one.home->data(), one.made.data(), size));
      tensors_.NoteWrite(*one.home);
    }
    return OkStatus();
  }

 private:
  struct Copied {
    Tensor made;
    const Tensor* home;
  };

  const tensor::Processors& places_;
  CallTensors& tensors_;
  absl::InlinedVector<Copied, 4> copied_;
};

}  // namespace

StatusOr<std::shared_ptr<BoundFragment>> BoundFragment::Bind(
    const SessionFragments::Entry& fragment, const plan::Program& program, const plan::CallOp& call,
    Rank rank) {
  if (fragment.object == nullptr) {
    return InvalidArgument("it is a function of a module: a program calls that by its register");
  }
  const fragment::Signature& signature = fragment.object->signature();
  LOCKSTEP_ASSIGN_OR_RETURN(fragment::PlacedCall placed,
                            fragment::FragmentCallOf(program, call, signature));
  std::vector<Scalar> numbers(signature.arguments.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (call.arguments[i].use != plan::CallArgument::Use::kLiteral) continue;
    const DType dtype = signature.arguments[i].type.dtype;
    LOCKSTEP_ASSIGN_OR_RETURN(const plan::Literal number,
                              fragment::NumberFor(dtype, call.arguments[i].literal));
    numbers[i] = ScalarOf(number, dtype);
  }
  const absl::Span<const Rank> ranks = placed.workers().ranks();
  const auto index = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  return std::shared_ptr<BoundFragment>(new BoundFragment(
      fragment.name, PreparedCall(std::move(placed), index, fragment.object), std::move(numbers)));
}

Status BoundFragment::Run(SessionState& session, const tensor::Processors& places,
                          absl::Span<const registers::Value> arguments, CallResources resources,
                          uint64_t command) {
  const fragment::Signature& signature = prepared_.call().signature();
  CallTensors tensors(places, computes_on_device());
  absl::InlinedVector<const void*, 4> given;
  for (size_t i = 0; i < signature.arguments.size(); ++i) {
    const auto* const tensor = arguments[i].As<Tensor>();
    if (tensor == nullptr) {
      given.push_back(numbers_[i].bytes.data());
      continue;
    }
    StatusOr<const void*> taken = tensors.Take(*tensor, signature.arguments[i].type.ndim() == 0);
    if (!taken.ok()) return Annotate(taken.status(), ArgumentText(i, signature));
    given.push_back(*taken);
  }
  LOCKSTEP_RETURN_IF_ERROR(prepared_.FindSizes(given, resources));
  PlannedResults results(places, tensors);
  absl::InlinedVector<void*, 4> into;
  for (size_t i = 0; i < signature.results.size(); ++i) {
    const Tensor& home = *arguments[signature.arguments.size() + i].As<Tensor>();
    if (home.shape() != prepared_.ResultShape(i)) {
      return InvalidArgument("result ", i, " of `", signature.function, "` is ",
                             prepared_.ResultShape(i), " on this rank, and its tile in the plan ",
                             home.shape());
    }
    LOCKSTEP_ASSIGN_OR_RETURN(void* const made, results.MakeRoom(session, home));
    into.push_back(made);
  }
  resources.abort = session.BeginPolling(command);
  if (resources.abort == nullptr) return Aborted("the session's work was given up");
  Status status;
  {
    const absl::Cleanup end = [&] { session.EndPolling(); };
    status = prepared_.Run(given, into, resources);
  }
  if (status.ok()) status = results.BringHome();
  gpu_memory_ = tensors.TakeGpuMemory();
  return status;
}

}  // namespace lockstep::worker
