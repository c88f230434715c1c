// What a process must know of a session to take it over (schemas/membership.capnp).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "runtime/base/ids.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/keys/allow_list.h"
#include "schemas/membership.capnp.h"

namespace lockstep::control {

// A register that another client can find.
struct NamedRegister {
  RegisterId id;
  uint64_t named_by = 0;  // the command that gave it its first value
  bool operator==(const NamedRegister&) const = default;
};

struct SessionRecord {
  SessionId id = {};
  std::string token = {};  // proves ownership when a client comes back
  // The client: a name for people, and its process.
  std::string name = {};
  std::string host = {};
  std::string host_id = {};
  int pid = 0;
  int num_groups = 1;
  Generation generation = {};
  uint64_t next_command = 1;                     // number of the first that is to come
  uint64_t consumed_bytes = 0;                   // where flow control counts from, in FlowCost
  std::chrono::milliseconds command_timeout{0};  // 0: a command may take as long as it likes
  std::chrono::milliseconds keep_for{0};         // how long it outlives the loss of its client
  std::map<std::string, NamedRegister> names = {};
  bool client_lost = false;            // its last one fell silent, and may still write to tensors
  uint32_t register_generations = 0;   // the highest of any register's id
  RemoteError failure = {};            // of this generation; OK: none
  uint32_t client_number = 1;          // its first client is 1, each that attaches the next
  uint64_t first_command = 1;          // of a worker: that it was sent
  std::string bulk_key = {};           // the public key that its client shows at bulk endpoints
  bool forward_output = false;         // its client wants to see what functions print
  std::optional<Identity> owner = {};  // of its client, as its key has shown; none: it needed none

  // Everything that is its client's and changes with it; registers' names are the session's.
  void TakeClientOf(const SessionRecord& other);
};

void WriteSessionRecord(wire::SessionRecord::Builder builder, const SessionRecord& record);
SessionRecord ReadSessionRecord(wire::SessionRecord::Reader reader);

// A wait that a client asks for, cut to what fits everywhere.
std::chrono::milliseconds Millis(uint64_t millis);

}  // namespace lockstep::control
