#include "runtime/control/worker_report_codec.h"

#include <algorithm>
#include <limits>

#include "runtime/control/value_codec.h"

namespace lockstep::control {
namespace {

// Of what is executed; it is kept, and shown, for as long as the worker lives.
constexpr size_t kMaxNameBytes = 255;

wire::Activity::Kind KindToWire(WorkerActivity::Kind kind) {
  switch (kind) {
    case WorkerActivity::Kind::kNone:
      return wire::Activity::Kind::NONE;
    case WorkerActivity::Kind::kCommand:
      return wire::Activity::Kind::COMMAND;
    case WorkerActivity::Kind::kCollective:
      return wire::Activity::Kind::COLLECTIVE;
  }
  return wire::Activity::Kind::NONE;
}

// What a newer peer may say besides is taken for nothing.
WorkerActivity::Kind KindFromWire(wire::Activity::Kind kind) {
  switch (kind) {
    case wire::Activity::Kind::NONE:
      return WorkerActivity::Kind::kNone;
    case wire::Activity::Kind::COMMAND:
      return WorkerActivity::Kind::kCommand;
    case wire::Activity::Kind::COLLECTIVE:
      return WorkerActivity::Kind::kCollective;
  }
  return WorkerActivity::Kind::kNone;
}

}  // namespace

void WriteActivity(const WorkerActivity& activity, wire::Activity::Builder builder) {
  builder.setReceived(activity.received);
  builder.setLaunched(activity.launched);
  builder.setCompleted(activity.completed);
  builder.setRegisters(activity.registers);
  builder.setTensorBytes(activity.tensor_bytes);
  builder.setCollectives(activity.collectives);
  builder.setBusBytes(activity.bus_bytes);
  builder.setCollectiveNanos(static_cast<uint64_t>(activity.in_collectives.count()));
  builder.setKind(KindToWire(activity.kind));
  if (activity.kind == WorkerActivity::Kind::kNone) return;
  builder.setSession(activity.session.value);
  builder.setCommand(activity.command);
  builder.setWhat(activity.what);
  builder.setSinceMillis(static_cast<uint64_t>(activity.since.count()));
  builder.setFirstRank(activity.first_rank);
  builder.setLastRank(activity.last_rank);
}

WorkerActivity ReadActivity(wire::Activity::Reader reader) {
  constexpr uint64_t kLongest = std::numeric_limits<int32_t>::max();
  constexpr uint64_t kLongestNanos = std::numeric_limits<int64_t>::max() / 4;
  WorkerActivity activity;
  activity.received = reader.getReceived();
  activity.launched = reader.getLaunched();
  activity.completed = reader.getCompleted();
  activity.registers = reader.getRegisters();
  activity.tensor_bytes = reader.getTensorBytes();
  activity.collectives = reader.getCollectives();
  activity.bus_bytes = reader.getBusBytes();
  activity.in_collectives = std::chrono::nanoseconds(
      static_cast<int64_t>(std::min(reader.getCollectiveNanos(), kLongestNanos)));
  activity.kind = KindFromWire(reader.getKind());
  if (activity.kind == WorkerActivity::Kind::kNone) return activity;
  activity.session = SessionId(reader.getSession());
  activity.command = reader.getCommand();
  activity.what = ToString(reader.getWhat()).substr(0, kMaxNameBytes);
  activity.since = std::chrono::milliseconds(std::min(reader.getSinceMillis(), kLongest));
  activity.first_rank = reader.getFirstRank();
  activity.last_rank = reader.getLastRank();
  return activity;
}

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
