#include "services/worker/execute/fragment_commands.h"

#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "runtime/fragment/call_codec.h"
#include "runtime/tensor/tensor.h"
#include "services/worker/values/reachable.h"

namespace lockstep::worker {
namespace {

using tensor::Tensor;

std::string Of(const char* what, size_t number, const fragment::Signature& signature) {
  return std::string(what) + " " + std::to_string(number) + " of `" + signature.function + "`";
}

// A number as it lies in memory.
struct Scalar {
  alignas(8) std::array<std::byte, 8> bytes{};

  template <typename T>
  void Set(T value) {
    std::memcpy(bytes.data(), &value, sizeof value);
  }
};

// kInvalidArgument: it is no number of that dtype.
StatusOr<Scalar> ReadScalar(wire::Value::Reader value, DType dtype) {
  Scalar scalar;
  if (dtype == DType::kBool && value.isBool()) {
    scalar.Set<uint8_t>(value.getBool() ? 1 : 0);
  } else if (dtype == DType::kInt64 && value.isInt64()) {
    scalar.Set<int64_t>(value.getInt64());
  } else if (dtype == DType::kInt32 && value.isInt64() &&
             value.getInt64() >= std::numeric_limits<int32_t>::min() &&
             value.getInt64() <= std::numeric_limits<int32_t>::max()) {
    scalar.Set<int32_t>(static_cast<int32_t>(value.getInt64()));
  } else if (dtype == DType::kFloat64 && value.isFloat64()) {
    scalar.Set<double>(value.getFloat64());
  } else if (dtype == DType::kFloat32 && value.isFloat64()) {
    scalar.Set<float>(static_cast<float>(value.getFloat64()));
  } else {
    return InvalidArgument("it is no number of dtype ", dtype);
  }
  return scalar;
}

// One call on this rank.
class FragmentCall {
 public:
  FragmentCall(SessionState& session, const tensor::Processors& places,
               const SessionFragments::Entry& fragment, const PreparedFragmentCall& call)
      : session_(session),
        places_(places),
        signature_(fragment.object->signature()),
        object_(*fragment.object),
        call_(call) {}

  Status Take(capnp::List<wire::Value>::Reader values) {
    // Neither may grow: what is called points into them.
    scalars_.reserve(call_.arguments.size());
    tensors_.reserve(call_.arguments.size());
    for (unsigned i = 0; i < values.size(); ++i) {
      const Status taken = TakeArgument(call_.arguments[i], values[i]);
      if (!taken.ok()) return Annotate(taken, Of("argument", i, signature_));
    }
    return OkStatus();
  }

  // `command` is its number, by which the session gives it up.
  Status Compute(uint64_t command) {
    const size_t room = session_.registers().room_bytes();
    if (call_.result_bytes() > room) return session_.registers().CheckRoom(call_.result_bytes());
    for (const PreparedFragmentCall::Result& result : call_.results) {
      LOCKSTEP_ASSIGN_OR_RETURN(
          Tensor made, Tensor::Empty(places_.host->allocator(), result.dtype, result.shape));
      results_.push_back(std::move(made));
    }
    if (!call_.calls) return FillWithIdentities();
    const volatile int32_t* const abort = session_.BeginPolling(command);
    if (abort == nullptr) return Aborted("the session's work was given up");
    const absl::Cleanup end = [this] { session_.EndPolling(); };
    const CallResources resources{places_.host->allocator(), room - call_.result_bytes(), abort};
    LOCKSTEP_RETURN_IF_ERROR(CheckSizes(resources));
    std::vector<LockstepFragmentTensor> results;
    for (const Tensor& made : results_) {
      results.push_back({made.data(), made.shape().dims().data(), nullptr, nullptr});
    }
    return object_.Run(arguments_, results, resources);
  }

  Status Give(capnp::List<uint64_t>::Reader registers) {
    for (unsigned i = 0; i < registers.size(); ++i) {
      if (registers[i] == 0) continue;
      LOCKSTEP_ASSIGN_OR_RETURN(Tensor home,
                                tensor::MoveTo(places_.Home(), *places_.host, results_[i]));
      LOCKSTEP_RETURN_IF_ERROR(session_.Write(RegisterId::FromPacked(registers[i]), std::move(home),
                                              call_.results[i].layout));
    }
    return OkStatus();
  }

 private:
  Status TakeArgument(const PreparedFragmentCall::Argument& wanted, wire::Value::Reader value) {
    void* data = nullptr;
    if (value.isRegister()) {
      LOCKSTEP_ASSIGN_OR_RETURN(Tensor tensor,
                                TensorIn(wanted, RegisterId::FromPacked(value.getRegister())));
      data = tensor.data();
      tensors_.push_back(std::move(tensor));
    } else {
      if (wanted.whole.ndim() != 0) return InvalidArgument("it is a tensor, and no register");
      LOCKSTEP_ASSIGN_OR_RETURN(const Scalar scalar, ReadScalar(value, wanted.dtype));
      scalars_.push_back(scalar);
      data = scalars_.back().bytes.data();
    }
    arguments_.push_back(
        {data, wanted.tile.dims().data(), wanted.offset.dims().data(), wanted.whole.dims().data()});
    return OkStatus();
  }

  // In host memory.
  StatusOr<Tensor> TensorIn(const PreparedFragmentCall::Argument& wanted, RegisterId id) {
    LOCKSTEP_ASSIGN_OR_RETURN(const registers::Value* const value, session_.registers().Read(id));
    const auto* tensor = value->As<Tensor>();
    if (tensor == nullptr) {
      return InvalidArgument("register ", id, " holds ", registers::Describe(*value),
                             ", not a tensor");
    }
    if (tensor->dtype() != wanted.dtype || tensor->shape() != wanted.tile) {
      return InvalidArgument("by the call, this rank's part is ", wanted.dtype, wanted.tile,
                             ", and register ", id, " holds ", tensor->dtype(), tensor->shape());
    }
    const registers::LayoutPtr known = session_.registers().LayoutOf(id);
    if (known != nullptr && wanted.layout != nullptr && *known != *wanted.layout) {
      return InvalidArgument("by the call it is ", *wanted.layout, ", and register ", id,
                             " is known to be ", *known);
    }
    LOCKSTEP_RETURN_IF_ERROR(RequireReachable(places_, *tensor, "the tensor"));
    return tensor::MoveTo(*places_.host, *places_.Of(tensor->device()), *tensor);
  }

  // What the caller has told against what the fragment makes of its arguments.
  Status CheckSizes(const CallResources& resources) const {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto shapes, object_.ResultShapes(arguments_, resources));
    for (size_t i = 0; i < shapes.size(); ++i) {
      if (!shapes[i].has_value() || *shapes[i] == call_.results[i].shape) continue;
      return InvalidArgument(Of("result", i, signature_), " was to be ", call_.results[i].shape,
                             " on this rank, and becomes ", *shapes[i]);
    }
    return OkStatus();
  }

  Status FillWithIdentities() {
    for (size_t i = 0; i < results_.size(); ++i) {
      const auto& identity = call_.results[i].identity;
      if (!identity.has_value()) continue;  // it has no elements
      uint64_t pattern = 0;
      std::memcpy(&pattern, identity->data(), sizeof pattern);
      LOCKSTEP_RETURN_IF_ERROR(places_.host->Fill(results_[i].buffer(), pattern));
    }
    return OkStatus();
  }

  SessionState& session_;
  const tensor::Processors& places_;
  const fragment::Signature& signature_;
  const LoadedObject& object_;
  const PreparedFragmentCall& call_;
  std::vector<Scalar> scalars_;
  std::vector<Tensor> tensors_;  // held for the call
  std::vector<LockstepFragmentTensor> arguments_;
  std::vector<Tensor> results_;
};

}  // namespace

void FragmentCommands::SetPlace(Rank rank, int world_size) {
  rank_ = rank;
  world_size_ = world_size;
  prepared_.Clear();
}

Status FragmentCommands::Run(SessionState& session, wire::Command::RunFragment::Reader run,
                             const tensor::Processors& places) {
  running_.Name("fragment");
  const fragment::ObjectKey key{run.getFragment().getHigh(), run.getFragment().getLow()};
  LOCKSTEP_ASSIGN_OR_RETURN(const SessionFragments::Entry* const fragment,
                            session.fragments().Find(key));
  running_.function = fragment->name;
  activity_.Name(fragment->name, WorkerActivity::Kind::kCommand);
  if (recorder_ != nullptr) recorder_->spans().Name(fragment->name, trace::Kind::kCommand);
  const auto bytes = run.getCall();
  LOCKSTEP_ASSIGN_OR_RETURN(
      const Prepared call,
      Prepare(key, fragment->object->signature(),
              {reinterpret_cast<const std::byte*>(bytes.begin()), bytes.size()}));
  if (run.getArguments().size() != call->arguments.size() ||
      run.getResults().size() != call->results.size()) {
    return InvalidArgument("the call has ", call->arguments.size(), " arguments and ",
                           call->results.size(), " results, and the command ",
                           run.getArguments().size(), " and ", run.getResults().size());
  }
  FragmentCall execution(session, places, *fragment, *call);
  LOCKSTEP_RETURN_IF_ERROR(execution.Take(run.getArguments()));
  LOCKSTEP_RETURN_IF_ERROR(execution.Compute(running_.number));
  return execution.Give(run.getResults());
}

StatusOr<FragmentCommands::Prepared> FragmentCommands::Prepare(const fragment::ObjectKey& key,
                                                               const fragment::Signature& signature,
                                                               absl::Span<const std::byte> call) {
  const Entry* const known = prepared_.Use([&](const Entry& entry) {
    return entry.fragment == key && entry.call.size() == call.size() &&
           std::memcmp(entry.call.data(), call.data(), call.size()) == 0;
  });
  if (known != nullptr) return known->prepared;
  LOCKSTEP_ASSIGN_OR_RETURN(Prepared prepared, PrepareAnew(signature, call));
  // Layouts are as large as what they were read from.
  prepared_.Add({key, {reinterpret_cast<const char*>(call.data()), call.size()}, prepared},
                sizeof(Entry) + sizeof(PreparedFragmentCall) + 4 * call.size());
  return prepared;
}

StatusOr<FragmentCommands::Prepared> FragmentCommands::PrepareAnew(
    const fragment::Signature& signature, absl::Span<const std::byte> call) const {
  LOCKSTEP_ASSIGN_OR_RETURN(fragment::CallParts parts, fragment::DecodeCall(call, world_size_));
  std::vector<Rank> ranks(static_cast<size_t>(world_size_));
  std::iota(ranks.begin(), ranks.end(), 0);
  LOCKSTEP_ASSIGN_OR_RETURN(
      const fragment::PlacedCall placed,
      fragment::PlacedCall::Make(fragment::Kind::kMlir, signature, std::move(ranks),
                                 std::move(parts.inputs), std::move(parts.outputs)));
  LOCKSTEP_ASSIGN_OR_RETURN(PreparedCall ready, PreparedCall::Prepare(std::move(placed), rank_,
                                                                      object, scalars, resources));
  Prepared prepared{std::move(ready), {}, {}};
  const fragment::Signature& signature = object->signature();
  for (int i = 0; i < signature.num_arguments(); ++i) {
    prepared.arguments.push_back(Shared(prepared.call.call().ArgumentLayout(i)));
  }
  for (int i = 0; i < signature.num_results(); ++i) {
    const DType dtype = signature.results[static_cast<size_t>(i)].type.dtype;
    prepared.results.push_back(Shared(prepared.call.ResultLayout(i)));
    prepared.result_bytes +=
        static_cast<size_t>(prepared.call.ResultShape(i).NumElements()) * SizeOf(dtype);
    // Also where the call gives the shape, which was checked for these numbers.
    const bool is_open = !signature.results[static_cast<size_t>(i)].type.IsClosed();
    prepared.depends_on_scalars = prepared.depends_on_scalars || is_open;
  }
  return prepared;
}

}  // namespace lockstep::worker
