// How a client asks for a session, and what it is told of the one it gets.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/client/worker_output.h"
#include "runtime/control/channel.h"
#include "runtime/control/keys/gate.h"
#include "runtime/control/session_record.h"
#include "runtime/control/value.h"
#include "schemas/session.capnp.h"

namespace lockstep::client {

// A worker, as clients see it.
struct Peer {
  Rank rank = 0;
  std::string host;
  int pid = 0;
  std::string device;
  std::string bulk_endpoint;
  std::string bulk_key;  // of that endpoint; empty: it asks for none
};

// The facts that the controller told when it opened the session, and that do not change.
struct SessionFacts {
  SessionId id;
  std::string token;
  Epoch controller;  // in which it was started
  std::chrono::milliseconds lease{0};
  uint64_t flow_window_bytes = 0;
  uint64_t max_batch_bytes = 0;
  int num_workers = 0;
  int num_groups = 1;
  uint32_t client_number = 1;  // see SessionRecord
  std::string client_name;
  std::string bulk_key;
  bool forward_output = false;
};

struct OpenRequest {
  std::string endpoint;
  std::string name;
  int num_groups = 1;
  std::chrono::milliseconds timeout{0};
  std::chrono::milliseconds command_timeout{0};
  std::chrono::milliseconds keep_for{0};
  std::string ticket = {};  // of the session to attach to; empty: a new one
  control::CredentialSource credentials = {};
  std::string bulk_key = {};      // see SessionRecord
  OutputCallback on_output = {};  // null: what functions print is not asked for
};

// How a session stood when it was opened, or attached to.
struct SessionStart {
  Generation generation;
  uint64_t next_command = 1;
  uint32_t register_generations = 0;
  std::map<std::string, control::NamedRegister> names;
};

control::Frame OpenSessionFrame(const OpenRequest& request);
// kInvalidArgument if the ticket is none.
StatusOr<control::Frame> AttachFrame(const OpenRequest& request);
// `next_command`: the number of the first command that was not sent.
control::Frame ResumeFrame(const SessionFacts& facts, Generation generation, uint64_t next_command);

std::vector<Peer> ReadPeers(capnp::List<wire::Peer>::Reader list);
// Ranks whose worker was replaced: the first command that the present one was sent.
std::map<Rank, uint64_t> ReadReplaced(capnp::List<wire::Replacement>::Reader list);
SessionFacts ReadFacts(wire::SessionOpened::Reader reader);
SessionStart ReadStart(wire::SessionRecord::Reader reader);

// The lines that `message` brings, in order.
StatusOr<std::vector<WorkerOutput>> ReadOutput(wire::SessionOutput::Reader output,
                                               const control::Message& message);

// The value that a worker has answered `fetch` with.
StatusOr<Value> ReadFetched(const control::Frame& body);

// What another client attaches with: "SESSION-TOKEN".
std::string TicketOf(const SessionFacts& facts);

}  // namespace lockstep::client
