#include "services/worker/execute/fragment_arguments.h"

#include <limits>

#include "runtime/registers/register_file.h"

namespace lockstep::worker {

std::string ArgumentText(size_t number, const fragment::Signature& signature) {
  return "argument " + std::to_string(number) + " of `" + signature.function + "`";
}

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

StatusOr<const tensor::Tensor*> ReadPart(const SessionState& session, PreparedCall& call,
                                         size_t argument, uint64_t packed_register) {
  const RegisterId id = RegisterId::FromPacked(packed_register);
  LOCKSTEP_ASSIGN_OR_RETURN(const registers::Value* const held, session.registers().Read(id));
  const auto* tensor = held->As<tensor::Tensor>();
  if (tensor == nullptr) {
    return InvalidArgument("register ", id, " holds ", registers::Describe(*held),
                           ", not a tensor");
  }
  const DType dtype = call.call().inputs()[argument].dtype;
  const Shape& part = call.Part(argument).extents;
  // Where this worker has none of what others have of their own, any empty tensor is as good.
  const bool fits =
      tensor->shape() == part || (!call.Holds(argument) && tensor->NumElements() == 0);
  if (tensor->dtype() != dtype || !fits) {
    return InvalidArgument("by the call, this rank's part is ", dtype, part, ", and register ", id,
                           " holds ", tensor->dtype(), tensor->shape());
  }
  if (session.registers().HasLayout(id, call.LastAlike(argument))) [[likely]]
    return tensor;
  const registers::LayoutPtr known = session.registers().LayoutOf(id);
  if (!call.FindAlike(argument, known)) {
    return InvalidArgument("by the call it is ", *call.ArgumentLayout(argument), ", and register ",
                           id, " is known to be ", *known);
  }
  return tensor;
}

}  // namespace lockstep::worker
