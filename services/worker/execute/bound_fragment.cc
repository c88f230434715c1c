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

// One call: the plan's tensors where the fragment computes.
class PlacedTensors {
 public:
  // `place` is where it computes.
  PlacedTensors(const tensor::Processors& places, tensor::Processor& place)
      : places_(places), place_(place) {}

  // Numbers lie in host memory, wherever the fragment computes.
  StatusOr<const void*> Take(const Tensor& tensor, bool is_number) {
    tensor::Processor& place = is_number ? *places_.host : place_;
    LOCKSTEP_ASSIGN_OR_RETURN(Tensor there,
                              tensor::MoveTo(place, *places_.Of(tensor.device()), tensor));
    if (&place != places_.host) gpu_.reads.push_back({there.data(), there.size_bytes()});
    held_.push_back(std::move(there));
    return held_.back().data();
  }

  // Where a result is computed that is to lie in `tensor`.
  StatusOr<void*> MakeRoom(const SessionState& session, const Tensor& tensor) {
    if (places_.Of(tensor.device()) == &place_) {
      NoteWrite(tensor);
      return tensor.data();
    }
    LOCKSTEP_RETURN_IF_ERROR(session.registers().CheckRoom(tensor.size_bytes()));
    LOCKSTEP_ASSIGN_OR_RETURN(Tensor made,
                              Tensor::Empty(place_.allocator(), tensor.dtype(), tensor.shape()));
    NoteWrite(made);
    copied_.push_back({made, &tensor});
    return made.data();
  }

  // What was computed elsewhere comes to its tensor.
  Status BringHome() {
    for (const Copied& one : copied_) {
      const size_t size = one.made.size_bytes();
      if (size == 0) continue;
      const bool is_on_gpu = one.home->device().type != DeviceType::kCpu;
      LOCKSTEP_RETURN_IF_ERROR(is_on_gpu
                                   ? places_.gpu->FromHost(one.home->data(), one.made.data(), size)
                                   : place_.ToHost(one.home->data(), one.made.data(), size));
      NoteWrite(*one.home);
    }
    return OkStatus();
  }

  GpuMemory TakeGpuMemory() { return std::move(gpu_); }

 private:
  struct Copied {
    Tensor made;
    const Tensor* home;
  };

  void NoteWrite(const Tensor& tensor) {
    if (tensor.device().type == DeviceType::kCpu) return;
    gpu_.writes.push_back({tensor.data(), tensor.size_bytes()});
  }

  const tensor::Processors& places_;
  tensor::Processor& place_;
  absl::InlinedVector<Tensor, 4> held_;
  absl::InlinedVector<Copied, 4> copied_;
  GpuMemory gpu_;
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
  PlacedTensors tensors(places, computes_on_device() ? *places.gpu : *places.host);
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
  absl::InlinedVector<void*, 4> into;
  for (size_t i = 0; i < signature.results.size(); ++i) {
    const Tensor& home = *arguments[signature.arguments.size() + i].As<Tensor>();
    if (home.shape() != prepared_.ResultShape(i)) {
      return InvalidArgument("result ", i, " of `", signature.function, "` is ",
                             prepared_.ResultShape(i), " on this rank, and its tile in the plan ",
                             home.shape());
    }
    LOCKSTEP_ASSIGN_OR_RETURN(void* const made, tensors.MakeRoom(session, home));
    into.push_back(made);
  }
  resources.abort = session.BeginPolling(command);
  if (resources.abort == nullptr) return Aborted("the session's work was given up");
  Status status;
  {
    const absl::Cleanup end = [&] { session.EndPolling(); };
    status = prepared_.Run(given, into, resources);
  }
  if (status.ok()) status = tensors.BringHome();
  gpu_memory_ = tensors.TakeGpuMemory();
  return status;
}

}  // namespace lockstep::worker
