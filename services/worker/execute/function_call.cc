#include "services/worker/execute/function_call.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/fragment/placed_call.h"
#include "runtime/tensor/tensor.h"
#include "services/worker/execute/fragment_arguments.h"
#include "services/worker/values/value_transfer.h"

namespace lockstep::worker {
namespace {

using tensor::Tensor;

// One call on this rank.
class FunctionCall {
 public:
  FunctionCall(SessionState& session, const tensor::Processors& places, PreparedCall& prepared)
      : session_(session), places_(places), prepared_(prepared) {}

  Status TakeArguments(capnp::List<wire::Value>::Reader values) {
    for (unsigned i = 0; i < values.size(); ++i) {
      StatusOr<registers::Value> taken = Take(i, values[i]);
      if (!taken.ok()) {
        return Annotate(taken.status(), ArgumentText(i, prepared_.call().signature()));
      }
      arguments_.push_back(*std::move(taken));
    }
    return OkStatus();
  }
  absl::Span<const registers::Value> arguments() const { return arguments_; }

  // What the function has returned: a tensor, or a list of as many as there are results.
  Status Give(const registers::Value& returned, capnp::List<uint64_t>::Reader registers) {
    std::vector<registers::Value> values;
    if (registers.size() == 1) {
      values.push_back(returned);
    } else if (const auto* list = returned.As<std::shared_ptr<const registers::List>>()) {
      values = **list;
    }
    if (registers.size() > 0 && registers.size() != values.size()) {
      return InvalidArgument("it returned ", registers::Describe(returned), ", and a list of ",
                             registers.size(), " tensors is expected of it");
    }
    for (unsigned i = 0; i < registers.size(); ++i) {
      StatusOr<registers::Value> result = Result(i, std::move(values[i]));
      if (!result.ok()) return Annotate(result.status(), "result " + std::to_string(i));
      if (registers[i] == 0) continue;
      LOCKSTEP_RETURN_IF_ERROR(session_.Write(RegisterId::FromPacked(registers[i]),
                                              *std::move(result), prepared_.ResultLayout(i)));
    }
    return OkStatus();
  }

 private:
  StatusOr<registers::Value> Take(unsigned i, wire::Value::Reader value) const {
    const fragment::Input& input = prepared_.call().inputs()[i];
    if (value.isRegister() && !input.as_it_is) {
      LOCKSTEP_ASSIGN_OR_RETURN(const Tensor* const part,
                                ReadPart(session_, prepared_, i, value.getRegister()));
      return registers::Value(*part);
    }
    if (!value.isRegister() && input.shape.ndim() > 0) {
      return InvalidArgument("it is a tensor, and no register is given");
    }
    return FromWire(value, session_.registers(), places_);
  }

  // A number is a tensor without dimensions, too.
  StatusOr<registers::Value> Result(unsigned i, registers::Value value) const {
    const DType dtype = prepared_.call().signature().results[i].type.dtype;
    const Shape& shape = prepared_.ResultShape(i);
    if (shape.ndim() == 0 && value.As<Tensor>() == nullptr) {
      LOCKSTEP_ASSIGN_OR_RETURN(const Scalar scalar, NumberOf(value, dtype));
      tensor::Processor& home = places_.Home();
      LOCKSTEP_ASSIGN_OR_RETURN(Tensor made, Tensor::Empty(home.allocator(), dtype, shape));
      LOCKSTEP_RETURN_IF_ERROR(home.FromHost(made.data(), scalar.bytes.data(), SizeOf(dtype)));
      return registers::Value(std::move(made));
    }
    const auto* const tensor = value.As<Tensor>();
    if (tensor == nullptr) {
      return InvalidArgument("by the call it is ", dtype, shape, " on this rank, and the function ",
                             "returned ", registers::Describe(value));
    }
    if (tensor->dtype() == dtype && tensor->shape() == shape) return value;
    return InvalidArgument("by the call it is ", dtype, shape, " on this rank, and the function ",
                           "returned ", tensor->dtype(), tensor->shape());
  }

  static StatusOr<Scalar> NumberOf(const registers::Value& value, DType dtype) {
    Scalar scalar;
    const auto* const truth = value.As<bool>();
    const auto* const integer = value.As<int64_t>();
    const auto* const real = value.As<double>();
    if (dtype == DType::kBool && truth != nullptr) {
      scalar.Set<uint8_t>(*truth ? 1 : 0);
    } else if (dtype == DType::kInt64 && integer != nullptr) {
      scalar.Set(*integer);
    } else if (dtype == DType::kFloat64 && real != nullptr) {
      scalar.Set(*real);
    } else if (dtype == DType::kFloat32 && real != nullptr) {
      scalar.Set(static_cast<float>(*real));
    } else {
      return InvalidArgument("by the call it is ", dtype, ", and the function returned ",
                             registers::Describe(value));
    }
    return scalar;
  }

  SessionState& session_;
  const tensor::Processors& places_;
  PreparedCall& prepared_;
  std::vector<registers::Value> arguments_;
};

}  // namespace

Status RunFunction(
    SessionState& session, const tensor::Processors& places, PreparedCall& prepared,
    capnp::List<wire::Value>::Reader arguments, capnp::List<uint64_t>::Reader results,
    absl::FunctionRef<Status(absl::Span<const registers::Value>, registers::Value*)> call) {
  FunctionCall function(session, places, prepared);
  LOCKSTEP_RETURN_IF_ERROR(function.TakeArguments(arguments));
  registers::Value returned;
  LOCKSTEP_RETURN_IF_ERROR(call(function.arguments(), &returned));
  return function.Give(returned, results);
}

}  // namespace lockstep::worker
