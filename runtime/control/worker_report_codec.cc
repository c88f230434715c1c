#include "runtime/control/worker_report_codec.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>

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
  builder.setPlace(activity.place);
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
  activity.place = ToString(reader.getPlace()).substr(0, kMaxNameBytes);
  activity.since = std::chrono::milliseconds(std::min(reader.getSinceMillis(), kLongest));
  activity.first_rank = reader.getFirstRank();
  activity.last_rank = reader.getLastRank();
  return activity;
}

namespace {

// Those of one session, each once; on the wire registers name them by their numbers, from 1.
using Layouts = std::vector<std::shared_ptr<const HeldLayout>>;

void WriteLayout(const HeldLayout& layout, wire::HeldLayout::Builder builder) {
  builder.setDtype(layout.dtype);
  auto shape = builder.initShape(static_cast<unsigned>(layout.shape.size()));
  for (unsigned i = 0; i < shape.size(); ++i) shape.set(i, layout.shape[i]);
  auto axes = builder.initAxes(static_cast<unsigned>(layout.axes.size()));
  for (unsigned i = 0; i < axes.size(); ++i) {
    axes[i].setName(layout.axes[i].name);
    axes[i].setSize(layout.axes[i].size);
  }
  auto ranks = builder.initRanks(static_cast<unsigned>(layout.ranks.size()));
  for (unsigned i = 0; i < ranks.size(); ++i) ranks.set(i, layout.ranks[i]);
  auto placements = builder.initPlacements(static_cast<unsigned>(layout.placements.size()));
  for (unsigned i = 0; i < placements.size(); ++i) placements.set(i, layout.placements[i]);
}

std::shared_ptr<const HeldLayout> ReadLayout(wire::HeldLayout::Reader reader) {
  auto layout = std::make_shared<HeldLayout>();
  layout->dtype = ToString(reader.getDtype());
  for (const int64_t size : reader.getShape()) layout->shape.push_back(size);
  for (auto axis : reader.getAxes()) {
    layout->axes.push_back({ToString(axis.getName()), axis.getSize()});
  }
  for (const Rank rank : reader.getRanks()) layout->ranks.push_back(rank);
  for (auto placement : reader.getPlacements()) layout->placements.push_back(ToString(placement));
  return layout;
}

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
  builder.setLayoutLeftOut(held.layout_left_out);
}

HeldRegister ReadRegister(wire::HeldRegister::Reader reader, const Layouts& layouts) {
  HeldRegister held;
  held.id = RegisterId::FromPacked(reader.getRegister());
  held.name = ToString(reader.getName());
  held.type = ToString(reader.getType());
  held.bytes = reader.getBytes();
  held.dtype = ToString(reader.getDtype());
  for (const int64_t size : reader.getShape()) held.shape.push_back(size);
  held.device = ToString(reader.getDevice());
  held.detail = ToString(reader.getDetail());
  const uint32_t layout = reader.getLayout();
  if (layout > 0 && layout <= layouts.size()) held.layout = layouts[layout - 1];
  held.layout_left_out = reader.getLayoutLeftOut();
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
    std::map<const HeldLayout*, uint32_t> numbers;
    Layouts layouts;
    for (unsigned j = 0; j < listed.size(); ++j) {
      const HeldRegister& held = session.listed[j];
      WriteRegister(held, listed[j]);
      if (held.layout == nullptr) continue;
      const auto [at, is_new] =
          numbers.emplace(held.layout.get(), static_cast<uint32_t>(layouts.size() + 1));
      if (is_new) layouts.push_back(held.layout);
      listed[j].setLayout(at->second);
    }
    auto told = list[i].initLayouts(static_cast<unsigned>(layouts.size()));
    for (unsigned j = 0; j < told.size(); ++j) WriteLayout(*layouts[j], told[j]);
  }
}

std::vector<SessionHoldings> ReadHoldings(wire::HeldRegisters::Reader reader) {
  std::vector<SessionHoldings> sessions;
  for (auto entry : reader.getSessions()) {
    SessionHoldings& session = sessions.emplace_back();
    session.session = SessionId(entry.getSession());
    session.registers = entry.getRegisters();
    session.bytes = entry.getBytes();
    Layouts layouts;
    for (auto layout : entry.getLayouts()) layouts.push_back(ReadLayout(layout));
    for (auto held : entry.getListed()) session.listed.push_back(ReadRegister(held, layouts));
  }
  return sessions;
}

}  // namespace lockstep::control
