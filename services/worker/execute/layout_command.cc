#include "services/worker/execute/layout_command.h"

#include <memory>
#include <utility>

#include "runtime/control/message_codec.h"
#include "runtime/plan/layout.h"
#include "runtime/plan/layout_codec.h"

namespace lockstep::worker {
namespace {

void ForgetIn(SessionState& session, wire::Value::Reader value) {
  switch (value.which()) {
    case wire::Value::REGISTER:
      return session.ForgetLayout(RegisterId::FromPacked(value.getRegister()));
    case wire::Value::LIST:
      for (auto item : value.getList()) ForgetIn(session, item);
      return;
    case wire::Value::MAP:
      for (auto entry : value.getMap()) ForgetIn(session, entry.getValue());
      return;
    default:
      return;
  }
}

void ForgetIn(SessionState& session, const control::PlainArgument& argument) {
  if (argument.kind() == wire::Value::REGISTER) session.ForgetLayout(argument.GetRegister());
}

template <typename Argument>
void ForgetIfWritten(SessionState& session, const module::Function& function, size_t position,
                     const Argument& argument) {
  if (!session.registers().HasLayouts() || !function.MayWriteTo(position)) return;
  ForgetIn(session, argument);
}

}  // namespace

Status DeclareLayout(SessionState& session, wire::Command::DeclareLayout::Reader declare,
                     int world_size) {
  registers::LayoutPtr layout;
  if (declare.hasLayout()) {
    LOCKSTEP_ASSIGN_OR_RETURN(plan::Layout read, plan::ReadLayout(declare.getLayout(), world_size));
    layout = std::make_shared<const plan::Layout>(std::move(read));
  }
  return session.SetLayout(RegisterId::FromPacked(declare.getTensor()), std::move(layout));
}

control::Frame FindLayout(const SessionState& session, wire::Command::FindLayout::Reader find,
                          Rank rank) {
  const registers::LayoutPtr layout =
      session.registers().LayoutOf(RegisterId::FromPacked(find.getTensor()));
  if (layout == nullptr || layout->mesh().RankAt(0) != rank) return control::Frame();
  return control::EncodeMessage<wire::Layout>(
      [&](wire::Layout::Builder builder) { plan::WriteLayout(builder, *layout); });
}

void ForgetWritten(SessionState& session, const module::Function& function, size_t position,
                   const wire::Value::Reader& argument) {
  ForgetIfWritten(session, function, position, argument);
}

void ForgetWritten(SessionState& session, const module::Function& function, size_t position,
                   const control::PlainArgument& argument) {
  ForgetIfWritten(session, function, position, argument);
}

}  // namespace lockstep::worker
