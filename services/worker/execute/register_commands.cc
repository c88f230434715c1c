// What the executor does for the commands that only touch registers.
#include <utility>

#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "runtime/module/module.h"
#include "runtime/module/module_files.h"
#include "services/worker/execute/executor.h"
#include "services/worker/values/reachable.h"
#include "services/worker/values/value_transfer.h"

namespace lockstep::worker {

Status Executor::GetFunction(SessionState& session, wire::Command::GetFunction::Reader get) {
  Doing("get function");
  const std::string name = control::ToString(get.getName());
  std::shared_ptr<module::Function> function;
  if (get.getModule() == 0) {
    LOCKSTEP_ASSIGN_OR_RETURN(function, functions_.Find(name));
  } else {
    const RegisterId id = RegisterId::FromPacked(get.getModule());
    LOCKSTEP_ASSIGN_OR_RETURN(const registers::Value* const value, session.registers().Read(id));
    const auto* object = value->As<std::shared_ptr<registers::Object>>();
    if (object == nullptr || (*object)->kind() != registers::Object::Kind::kModule) {
      return InvalidArgument("register ", id, " holds ", registers::Describe(*value),
                             ", not a module");
    }
    LOCKSTEP_ASSIGN_OR_RETURN(function,
                              static_cast<const module::Module&>(**object).GetFunction(name));
  }
  return session.registers().Write(RegisterId::FromPacked(get.getResult()),
                                   std::shared_ptr<registers::Object>(std::move(function)));
}

Status Executor::LoadModule(SessionState& session, wire::Command::LoadModule::Reader load) {
  Doing("load module");
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::string file,
      module::FindModule(control::ToString(load.getPath()), options_.module_path));
  LOCKSTEP_RETURN_IF_ERROR(session.CountModule(file, options_.max_modules));
  BeginForwarding(session);  // constructors print, too
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<module::Module> loaded,
                            module::LoadModule(file, options_.module_path, options_.module_sha256));
  return session.registers().Write(RegisterId::FromPacked(load.getResult()),
                                   std::shared_ptr<registers::Object>(std::move(loaded)));
}

Status Executor::Empty(SessionState& session, wire::Command::Empty::Reader empty) {
  Doing("empty");
  LOCKSTEP_ASSIGN_OR_RETURN(const DType dtype, control::FromWire(empty.getDtype()));
  LOCKSTEP_ASSIGN_OR_RETURN(const Shape shape, control::ReadShape(empty.getShape(), SizeOf(dtype)));
  LOCKSTEP_RETURN_IF_ERROR(
      session.registers().CheckRoom(static_cast<size_t>(shape.NumElements()) * SizeOf(dtype)));
  LOCKSTEP_ASSIGN_OR_RETURN(tensor::Tensor tensor,
                            tensor::Tensor::Empty(call_context_.Home().allocator(), dtype, shape));
  return session.registers().Write(RegisterId::FromPacked(empty.getResult()), std::move(tensor));
}

Status Executor::Fetch(SessionState& session, wire::Command::Fetch::Reader fetch) {
  Doing("fetch");
  LOCKSTEP_RETURN_IF_ERROR(AwaitGpu(session));
  constexpr size_t kMaxValueBytes = size_t{64} << 20;
  LOCKSTEP_ASSIGN_OR_RETURN(const registers::Value* const value,
                            session.registers().Read(RegisterId::FromPacked(fetch.getRegister())));
  Status status;
  const control::Frame body =
      control::EncodeMessage<wire::Value>([&](wire::Value::Builder builder) {
        status = ToWire(*value, kMaxValueBytes, call_context_, builder);
      });
  LOCKSTEP_RETURN_IF_ERROR(status);
  LOCKSTEP_RETURN_IF_ERROR(StillWanted(session));
  Reply(control::RemoteError(), body);
  return OkStatus();
}

Status Executor::Store(SessionState& session, wire::Command::Store::Reader store) {
  Doing("store");
  LOCKSTEP_ASSIGN_OR_RETURN(registers::Value value,
                            FromWire(store.getValue(), session.registers(), call_context_));
  WithdrawTicket(session, store.getRegister());
  LOCKSTEP_RETURN_IF_ERROR(
      session.registers().Write(RegisterId::FromPacked(store.getRegister()), std::move(value)));
  LOCKSTEP_RETURN_IF_ERROR(NoteGpuWork(session, "store", /*may_have_used=*/false));
  // Who has this answer takes all before it for done, and may copy without asking again.
  LOCKSTEP_RETURN_IF_ERROR(AwaitGpu(session));
  Reply(control::RemoteError(), control::Frame());
  return OkStatus();
}

Status Executor::Locate(SessionState& session, wire::Command::Locate::Reader locate) {
  Doing("locate");
  // Else the copy, which has less patience, would wait for what the session's functions do.
  LOCKSTEP_RETURN_IF_ERROR(AwaitGpu(session));
  const RegisterId id = RegisterId::FromPacked(locate.getRegister());
  LOCKSTEP_ASSIGN_OR_RETURN(const registers::Value* const value, session.registers().Read(id));
  const auto* tensor = value->As<tensor::Tensor>();
  if (tensor == nullptr) {
    return InvalidArgument("register ", id, " holds ", registers::Describe(*value),
                           "; only tensors can be copied");
  }
  LOCKSTEP_RETURN_IF_ERROR(RequireReachable(call_context_, *tensor, "the tensor to copy"));
  if (locate.getRenew()) WithdrawTicket(session, id.Packed());
  const auto [found, is_new] = session.tickets().try_emplace(id.Packed(), 0);
  uint64_t& ticket = found->second;
  if (is_new) ticket = bulk_.Publish(*tensor);
  bulk_.Synchronise();
  const control::Frame body =
      control::EncodeMessage<wire::TensorLocation>([&](wire::TensorLocation::Builder location) {
        // Only whom we can watch is let at the memory: should we lose such a client, the tensor is
        // kept until it has ended. Others copy by socket.
        if (arena_->Contains(tensor->data()) && session.client_process() != nullptr) {
          location.setSegment(arena_->name());
          location.setOffset(arena_->OffsetOf(tensor->data()));
        }
        location.setDtype(control::ToWire(tensor->dtype()));
        control::WriteDims(location.initShape(static_cast<unsigned>(tensor->shape().ndim())),
                           tensor->shape());
        location.setTicket(ticket);
      });
  Reply(control::RemoteError(), body);
  return OkStatus();
}

}  // namespace lockstep::worker
