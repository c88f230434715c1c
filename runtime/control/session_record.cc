#include "runtime/control/session_record.h"

#include <algorithm>
#include <limits>

#include "runtime/control/value_codec.h"

namespace lockstep::control {
namespace {

// What cannot be understood is an owner whom no gate lets in, not one who needs no key.
Identity ReadOwner(const std::string& text) {
  const StatusOr<Identity> owner = Identity::Parse(text);
  return owner.ok() ? *owner : Identity{};
}

}  // namespace

void SessionRecord::TakeClientOf(const SessionRecord& other) {
  name = other.name;
  host = other.host;
  host_id = other.host_id;
  pid = other.pid;
  client_number = other.client_number;
  bulk_key = other.bulk_key;
  forward_output = other.forward_output;
  owner = other.owner;
}

void WriteSessionRecord(wire::SessionRecord::Builder builder, const SessionRecord& record) {
  builder.setSession(record.id.value);
  builder.setToken(record.token);
  builder.setName(record.name);
  auto host = builder.initClientHost();
  host.setName(record.host);
  host.setId(record.host_id);
  builder.setClientPid(record.pid);
  builder.setNumGroups(static_cast<uint32_t>(record.num_groups));
  builder.setGeneration(record.generation.value);
  builder.setNextCommand(record.next_command);
  builder.setConsumedBytes(record.consumed_bytes);
  builder.setCommandTimeoutMillis(static_cast<uint64_t>(record.command_timeout.count()));
  builder.setKeepMillis(static_cast<uint64_t>(record.keep_for.count()));
  auto names = builder.initNames(static_cast<unsigned>(record.names.size()));
  unsigned i = 0;
  for (const auto& [name, named] : record.names) {
    names[i].setName(name);
    names[i].setRegister(named.id.Packed());
    names[i++].setNamedBy(named.named_by);
  }
  builder.setRegisterGenerations(record.register_generations);
  builder.setClientLost(record.client_lost);
  builder.setClientNumber(record.client_number);
  builder.setFirstCommand(record.first_command);
  builder.setBulkKey(record.bulk_key);
  builder.setForwardOutput(record.forward_output);
  if (record.owner.has_value()) builder.setOwner(record.owner->Text());
  if (!record.failure.ok()) WriteError(builder.initFailure(), record.failure);
}

SessionRecord ReadSessionRecord(wire::SessionRecord::Reader reader) {
  SessionRecord record;
  record.id = SessionId(reader.getSession());
  record.token = ToString(reader.getToken());
  record.name = ToString(reader.getName());
  record.host = ToString(reader.getClientHost().getName());
  record.host_id = ToString(reader.getClientHost().getId());
  record.pid = reader.getClientPid();
  record.num_groups = static_cast<int>(reader.getNumGroups());
  record.generation = Generation(reader.getGeneration());
  record.next_command = reader.getNextCommand();
  record.consumed_bytes = reader.getConsumedBytes();
  record.command_timeout = Millis(reader.getCommandTimeoutMillis());
  record.keep_for = Millis(reader.getKeepMillis());
  for (auto named : reader.getNames()) {
    record.names[ToString(named.getName())] = {RegisterId::FromPacked(named.getRegister()),
                                               named.getNamedBy()};
  }
  record.register_generations = reader.getRegisterGenerations();
  record.client_lost = reader.getClientLost();
  record.client_number = reader.getClientNumber();
  record.first_command = reader.getFirstCommand();
  record.bulk_key = ToString(reader.getBulkKey());
  record.forward_output = reader.getForwardOutput();
  if (reader.hasOwner()) record.owner = ReadOwner(ToString(reader.getOwner()));
  if (reader.hasFailure()) record.failure = ReadError(reader.getFailure());
  return record;
}

std::chrono::milliseconds Millis(uint64_t millis) {
  return std::chrono::milliseconds(std::min<uint64_t>(millis, std::numeric_limits<int32_t>::max()));
}

}  // namespace lockstep::control
