#include "services/worker/execute/fragment_commands.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "runtime/base/log.h"
#include "runtime/fragment/call_codec.h"
#include "runtime/tensor/tensor.h"
#include "services/worker/values/reachable.h"

namespace lockstep::worker {
namespace {

using tensor::Tensor;

std::string ArgumentText(size_t number, const fragment::Signature& signature) {
  return "argument " + std::to_string(number) + " of `" + signature.function + "`";
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

// One call on this rank: its arguments in host memory, and its results.
class FragmentCall {
 public:
  using Values = capnp::List<wire::Value>::Reader;

  FragmentCall(SessionState& session, const tensor::Processors& places,
               const fragment::Signature& signature)
      : session_(session),
        places_(places),
        signature_(signature),
        scalars_(signature.arguments.size()),
        tensors_(signature.arguments.size()),
        data_(signature.arguments.size(), nullptr) {}

  // Of each scalar, where it lies; null: it is a tensor.
  Status TakeScalars(Values values) {
    for (size_t i = 0; i < data_.size(); ++i) {
      const fragment::TensorType& type = signature_.arguments[i].type;
      if (type.ndim() != 0) continue;
      const wire::Value::Reader value = values[static_cast<unsigned>(i)];
      const Status taken = value.isRegister() ? TakeTensor(i, type.dtype, {}, nullptr, value)
                                              : TakeNumber(i, type.dtype, value);
      if (!taken.ok()) return Annotate(taken, ArgumentText(i, signature_));
    }
    return OkStatus();
  }

  Status TakeTensors(Values values, const FragmentCommands::Prepared& prepared, int index) {
    const fragment::PlacedCall& call = prepared.call.call();
    for (size_t i = 0; i < data_.size(); ++i) {
      if (signature_.arguments[i].type.ndim() == 0) continue;
      const Shape part = call.PartAt(static_cast<int>(i), index).extents;
      const Status taken = TakeTensor(i, call.inputs()[i].dtype, part, prepared.arguments[i].get(),
                                      values[static_cast<unsigned>(i)]);
      if (!taken.ok()) return Annotate(taken, ArgumentText(i, signature_));
    }
    return OkStatus();
  }

  const std::vector<const void*>& data() const { return data_; }
  std::string ScalarBytes() const {
    std::string bytes;
    for (size_t i = 0; i < data_.size(); ++i) {
      if (data_[i] == nullptr) continue;
      bytes.append(static_cast<const char*>(data_[i]), SizeOf(signature_.arguments[i].type.dtype));
    }
    return bytes;
  }

  // `command` is its number, by which the session gives it up.
  Status Compute(const FragmentCommands::Prepared& prepared, CallResources resources,
                 uint64_t command) {
    LOCKSTEP_RETURN_IF_ERROR(session_.registers().CheckRoom(prepared.result_bytes));
    resources.most_bytes -= std::min(resources.most_bytes, prepared.result_bytes);
    std::vector<void*> into;
    for (int i = 0; i < signature_.num_results(); ++i) {
      LOCKSTEP_ASSIGN_OR_RETURN(Tensor made,
                                Tensor::Empty(places_.host->allocator(),
                                              signature_.results[static_cast<size_t>(i)].type.dtype,
                                              prepared.call.ResultShape(i)));
      into.push_back(made.data());
      results_.push_back(std::move(made));
    }
    resources.abort = session_.BeginPolling(command);
    if (resources.abort == nullptr) return Aborted("the session's work was given up");
    const absl::Cleanup end = [this] { session_.EndPolling(); };
    return prepared.call.Run(data_, into, resources);
  }

  Status Give(const FragmentCommands::Prepared& prepared, capnp::List<uint64_t>::Reader registers) {
    for (unsigned i = 0; i < registers.size(); ++i) {
      if (registers[i] == 0) continue;
      LOCKSTEP_ASSIGN_OR_RETURN(Tensor home,
                                tensor::MoveTo(places_.Home(), *places_.host, results_[i]));
      LOCKSTEP_RETURN_IF_ERROR(session_.Write(RegisterId::FromPacked(registers[i]), std::move(home),
                                              prepared.results[i]));
    }
    return OkStatus();
  }

 private:
  Status TakeNumber(size_t i, DType dtype, wire::Value::Reader value) {
    LOCKSTEP_ASSIGN_OR_RETURN(scalars_[i], ReadScalar(value, dtype));
    data_[i] = scalars_[i].bytes.data();
    return OkStatus();
  }

  // Which the call says to be `part` of a tensor of that layout; null: it does not say.
  Status TakeTensor(size_t i, DType dtype, const Shape& part, const plan::Layout* layout,
                    wire::Value::Reader value) {
    if (!value.isRegister()) return InvalidArgument("it is a tensor, and no register is given");
    const RegisterId id = RegisterId::FromPacked(value.getRegister());
    LOCKSTEP_ASSIGN_OR_RETURN(const registers::Value* const held, session_.registers().Read(id));
    const auto* tensor = held->As<Tensor>();
    if (tensor == nullptr) {
      return InvalidArgument("register ", id, " holds ", registers::Describe(*held),
                             ", not a tensor");
    }
    if (tensor->dtype() != dtype || tensor->shape() != part) {
      return InvalidArgument("by the call, this rank's part is ", dtype, part, ", and register ",
                             id, " holds ", tensor->dtype(), tensor->shape());
    }
    const registers::LayoutPtr known = session_.registers().LayoutOf(id);
    if (known != nullptr && layout != nullptr && *known != *layout) {
      return InvalidArgument("by the call it is ", *layout, ", and register ", id,
                             " is known to be ", *known);
    }
    LOCKSTEP_RETURN_IF_ERROR(RequireReachable(places_, *tensor, "the tensor"));
    LOCKSTEP_ASSIGN_OR_RETURN(
        tensors_[i], tensor::MoveTo(*places_.host, *places_.Of(tensor->device()), *tensor));
    data_[i] = tensors_[i].data();
    return OkStatus();
  }

  SessionState& session_;
  const tensor::Processors& places_;
  const fragment::Signature& signature_;
  // By argument: what is held for the call, and where it lies.
  std::vector<Scalar> scalars_;
  std::vector<Tensor> tensors_;
  std::vector<const void*> data_;
  std::vector<Tensor> results_;
};

registers::LayoutPtr Shared(const std::optional<plan::Layout>& layout) {
  return layout.has_value() ? std::make_shared<const plan::Layout>(*layout) : nullptr;
}

}  // namespace

bool FragmentCommands::Entry::IsOf(const CallKey& key) const {
  return fragment == key.fragment && call.size() == key.call.size() &&
         std::memcmp(call.data(), key.call.data(), call.size()) == 0 &&
         (!prepared->depends_on_scalars || scalars == key.scalars);
}

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
  const fragment::Signature& signature = fragment->object->signature();
  if (run.getArguments().size() != signature.arguments.size() ||
      run.getResults().size() != signature.results.size()) {
    return InvalidArgument("`", signature.function, "` has ", signature.num_arguments(),
                           " arguments and ", signature.num_results(), " results, and the command ",
                           run.getArguments().size(), " and ", run.getResults().size());
  }
  FragmentCall call(session, places, signature);
  LOCKSTEP_RETURN_IF_ERROR(call.TakeScalars(run.getArguments()));
  const CallResources resources{places.host->allocator(), session.registers().room_bytes(), nullptr,
                                Blas()};
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::shared_ptr<const Prepared> prepared,
      Prepare({key, {run.getCall().asChars().begin(), run.getCall().size()}, call.ScalarBytes()},
              *fragment, call.data(), resources));
  LOCKSTEP_RETURN_IF_ERROR(call.TakeTensors(run.getArguments(), *prepared, rank_));
  LOCKSTEP_RETURN_IF_ERROR(call.Compute(*prepared, resources, running_.number));
  return call.Give(*prepared, run.getResults());
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

StatusOr<std::shared_ptr<const FragmentCommands::Prepared>> FragmentCommands::Prepare(
    const CallKey& key, const SessionFragments::Entry& fragment,
    absl::Span<const void* const> scalars, const CallResources& resources) {
  const Entry* const known = prepared_.Use([&](const Entry& entry) { return entry.IsOf(key); });
  if (known != nullptr) return known->prepared;
  LOCKSTEP_ASSIGN_OR_RETURN(Prepared made,
                            PrepareAnew(key.call, fragment.object, scalars, resources));
  auto prepared = std::make_shared<const Prepared>(std::move(made));
  // Layouts are about as large as what they were read from.
  prepared_.Add({key.fragment, {key.call.data(), key.call.size()}, key.scalars, prepared},
                sizeof(Entry) + sizeof(Prepared) + 4 * key.call.size() + key.scalars.size());
  return prepared;
}

StatusOr<FragmentCommands::Prepared> FragmentCommands::PrepareAnew(
    absl::Span<const char> call, const std::shared_ptr<const LoadedObject>& object,
    absl::Span<const void* const> scalars, const CallResources& resources) const {
  LOCKSTEP_ASSIGN_OR_RETURN(
      fragment::CallParts parts,
      fragment::DecodeCall({reinterpret_cast<const std::byte*>(call.data()), call.size()},
                           world_size_));
  std::vector<Rank> ranks(static_cast<size_t>(world_size_));
  std::iota(ranks.begin(), ranks.end(), 0);
  LOCKSTEP_ASSIGN_OR_RETURN(
      fragment::PlacedCall placed,
      fragment::PlacedCall::Make(fragment::Kind::kMlir, object->signature(), std::move(ranks),
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
