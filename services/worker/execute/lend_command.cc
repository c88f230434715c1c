#include "services/worker/execute/lend_command.h"

#include <optional>
#include <utility>

#include "runtime/base/shape.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "services/worker/values/reachable.h"

namespace lockstep::worker {
namespace {

using tensor::Tensor;

// Puts a new tensor into the register. kResourceExhausted: the session, or the arena, has no room.
StatusOr<Tensor> MakeTensor(SessionState& session, RegisterId id, DType dtype, const Shape& shape,
                            tensor::Arena& arena) {
  LOCKSTEP_RETURN_IF_ERROR(
      session.registers().CheckRoom(static_cast<size_t>(shape.NumElements()) * SizeOf(dtype)));
  LOCKSTEP_ASSIGN_OR_RETURN(Tensor made, Tensor::Empty(arena, dtype, shape));
  LOCKSTEP_RETURN_IF_ERROR(session.Write(id, made));
  return made;
}

StatusOr<Tensor> TensorIn(const SessionState& session, RegisterId id,
                          const tensor::Processors& places) {
  LOCKSTEP_ASSIGN_OR_RETURN(const registers::Value* const value, session.registers().Read(id));
  const auto* tensor = value->As<Tensor>();
  if (tensor == nullptr) {
    return InvalidArgument("register ", id, " holds ", registers::Describe(*value),
                           "; only the memory of tensors can be lent");
  }
  LOCKSTEP_RETURN_IF_ERROR(RequireReachable(places, *tensor, "the tensor to lend"));
  return *tensor;
}

control::Frame Refuse(const Status& status, const SessionState& session,
                      const RunningCommand& running, Rank rank) {
  control::RemoteError error = control::ErrorOf(status);
  error.rank = rank;
  error.session = session.id();
  error.command = running.number;
  error.function = running.function;
  return control::EncodeMessage<wire::TensorLocation>([&](wire::TensorLocation::Builder location) {
    control::WriteError(location.initRefusal(), error);
  });
}

}  // namespace

bool MayShare(SessionState& session, const tensor::Arena& arena, const Tensor& tensor) {
  return arena.Contains(tensor.data()) && session.client_process() != nullptr;
}

void WriteLocation(wire::TensorLocation::Builder location, const tensor::Arena& arena,
                   const Tensor& tensor, bool is_shared) {
  if (is_shared) {
    location.setSegment(arena.name());
    location.setOffset(arena.OffsetOf(tensor.data()));
  }
  location.setDtype(control::ToWire(tensor.dtype()));
  control::WriteDims(location.initShape(static_cast<unsigned>(tensor.shape().ndim())),
                     tensor.shape());
}

StatusOr<control::Frame> Lend(SessionState& session, wire::Command::Lend::Reader lend,
                              tensor::Arena& arena, const tensor::Processors& places,
                              const RunningCommand& running, Rank rank) {
  const RegisterId id = RegisterId::FromPacked(lend.getRegister());
  const RegisterId loan = lend.getLoan() == 0 ? id : RegisterId::FromPacked(lend.getLoan());
  if (loan != id && loan.index == id.index) {
    return InvalidArgument("the loan ", loan, " of register ", id, " needs a place of its own");
  }
  session.EndEarlierLoan(id);  // before room is asked for
  if (session.loans().Has(loan)) {
    return InvalidArgument("what register ", loan, " names is lent already");
  }
  std::optional<Tensor> tensor;
  if (!lend.getIsNew()) {
    LOCKSTEP_ASSIGN_OR_RETURN(tensor, TensorIn(session, id, places));
  } else if (places.gpu == nullptr && session.client_process() != nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(const DType dtype, control::FromWire(lend.getDtype()));
    LOCKSTEP_ASSIGN_OR_RETURN(const Shape shape,
                              control::ReadShape(lend.getShape(), SizeOf(dtype)));
    StatusOr<Tensor> made = MakeTensor(session, id, dtype, shape, arena);
    if (made.status().code() == StatusCode::kResourceExhausted) {
      return Refuse(made.status(), session, running, rank);
    }
    LOCKSTEP_ASSIGN_OR_RETURN(tensor, std::move(made));
  }
  const bool is_lent = tensor.has_value() && MayShare(session, arena, *tensor);
  if (is_lent) {
    // Among the registers it has their limits, and goes when its name is released.
    if (loan != id) LOCKSTEP_RETURN_IF_ERROR(session.Write(loan, registers::None{}));
    session.loans().Lend(loan, id, *tensor);
  }
  return control::EncodeMessage<wire::TensorLocation>([&](wire::TensorLocation::Builder location) {
    if (tensor.has_value()) WriteLocation(location, arena, *tensor, is_lent);
  });
}

}  // namespace lockstep::worker
