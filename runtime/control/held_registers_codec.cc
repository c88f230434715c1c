#include "runtime/control/held_registers_codec.h"

#include "runtime/control/value_codec.h"

namespace lockstep::control {
namespace {

void WriteRegister(const HeldRegister& held, wire::HeldRegister::Builder builder) {
  builder.setRegister(held.id.Packed());
  builder.setName(held.name);
  builder.setType(held.type);
  builder.setBytes(held.bytes);
  builder.setDtype(held.dtype);
  auto shape = builder.initShape(static_cast<unsigned>(held.shape.size()));
  for (unsigned i = 0; i < shape.size(); ++i) shape.set(i, held.shape[i]);
  builder.setDevice(held.device);
  builder.setDetail(held.detail);
}

HeldRegister ReadRegister(wire::HeldRegister::Reader reader) {
  HeldRegister held;
  held.id = RegisterId::FromPacked(reader.getRegister());
  held.name = ToString(reader.getName());
  held.type = ToString(reader.getType());
  held.bytes = reader.getBytes();
  held.dtype = ToString(reader.getDtype());
  for (const int64_t size : reader.getShape()) held.shape.push_back(size);
  held.device = ToString(reader.getDevice());
  held.detail = ToString(reader.getDetail());
  return held;
}

}  // namespace

void WriteHoldings(const std::vector<SessionHoldings>& sessions,
                   wire::HeldRegisters::Builder builder) {
  auto list = builder.initSessions(static_cast<unsigned>(sessions.size()));
  for (unsigned i = 0; i < list.size(); ++i) {
    const SessionHoldings& session = sessions[i];
    list[i].setSession(session.session.value);
    list[i].setRegisters(session.registers);
    list[i].setBytes(session.bytes);
    auto listed = list[i].initListed(static_cast<unsigned>(session.listed.size()));
    for (unsigned j = 0; j < listed.size(); ++j) WriteRegister(session.listed[j], listed[j]);
  }
}

std::vector<SessionHoldings> ReadHoldings(wire::HeldRegisters::Reader reader) {
  std::vector<SessionHoldings> sessions;
  for (auto entry : reader.getSessions()) {
    SessionHoldings& session = sessions.emplace_back();
    session.session = SessionId(entry.getSession());
    session.registers = entry.getRegisters();
    session.bytes = entry.getBytes();
    for (auto held : entry.getListed()) session.listed.push_back(ReadRegister(held));
  }
  return sessions;
}

}  // namespace lockstep::control
