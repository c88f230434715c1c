#include "runtime/client/session_messages.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "runtime/base/host_identity.h"
#include "runtime/base/version.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "schemas/control.capnp.h"

namespace lockstep::client {
namespace {

// How long a restarted controller may wait for its workers to come back.
constexpr std::chrono::milliseconds kResumePatience{60'000};

void WriteThisHost(wire::Host::Builder host) {
  host.setName(ThisHost().name);
  host.setId(ThisHost().id);
}

}  // namespace

control::Frame OpenSessionFrame(const OpenRequest& request) {
  return control::EncodeMessage<wire::ClientMessage>([&](wire::ClientMessage::Builder message) {
    auto open = message.initOpenSession();
    open.setMinVersion(kOldestProtocolVersion);
    open.setMaxVersion(kProtocolVersion);
    open.setBuild(kBuildVersion);
    open.setName(request.name);
    WriteThisHost(open.initHost());
    open.setPid(getpid());
    open.setNumGroups(static_cast<uint32_t>(request.num_groups));
    open.setTimeoutMillis(static_cast<uint64_t>(request.timeout.count()));
    open.setCommandTimeoutMillis(static_cast<uint64_t>(request.command_timeout.count()));
    open.setKeepMillis(static_cast<uint64_t>(request.keep_for.count()));
    open.setBulkKey(request.bulk_key);
    open.setForwardOutput(request.on_output != nullptr);
  });
}

StatusOr<control::Frame> AttachFrame(const OpenRequest& request) {
  const size_t dash = request.ticket.find('-');
  uint32_t session = 0;
  const char* const end = request.ticket.data() + std::min(dash, request.ticket.size());
  const auto [rest, error] = std::from_chars(request.ticket.data(), end, session);
  if (dash == std::string::npos || error != std::errc() || rest != end) {
    return InvalidArgument("\"", request.ticket, "\" is no ticket of Session::ticket()");
  }
  return control::EncodeMessage<wire::ClientMessage>([&](wire::ClientMessage::Builder message) {
    auto attach = message.initAttachSession();
    attach.setMinVersion(kOldestProtocolVersion);
    attach.setMaxVersion(kProtocolVersion);
    attach.setBuild(kBuildVersion);
    attach.setSession(session);
    attach.setToken(request.ticket.substr(dash + 1));
    attach.setName(request.name);
    WriteThisHost(attach.initHost());
    attach.setPid(getpid());
    attach.setTimeoutMillis(static_cast<uint64_t>(request.timeout.count()));
    attach.setBulkKey(request.bulk_key);
    attach.setForwardOutput(request.on_output != nullptr);
  });
}

control::Frame ResumeFrame(const SessionFacts& facts, Generation generation,
                           uint64_t next_command) {
  return control::EncodeMessage<wire::ClientMessage>([&](wire::ClientMessage::Builder message) {
    auto resume = message.initResumeSession();
    resume.setMinVersion(kOldestProtocolVersion);
    resume.setMaxVersion(kProtocolVersion);
    resume.setBuild(kBuildVersion);
    resume.setSession(facts.id.value);
    resume.setToken(facts.token);
    resume.setClientNumber(facts.client_number);
    resume.setName(facts.client_name);
    WriteThisHost(resume.initHost());
    resume.setPid(getpid());
    resume.setGeneration(generation.value);
    resume.setNextCommand(next_command);
    resume.setTimeoutMillis(static_cast<uint64_t>(kResumePatience.count()));
    resume.setBulkKey(facts.bulk_key);
    resume.setForwardOutput(facts.forward_output);
  });
}

std::vector<Peer> ReadPeers(capnp::List<wire::Peer>::Reader list) {
  std::vector<Peer> peers;
  for (auto peer : list) {
    peers.push_back({peer.getRank(), control::ToString(peer.getHost().getName()), peer.getPid(),
                     control::ToString(peer.getDevice()), control::ToString(peer.getBulkEndpoint()),
                     control::ToString(peer.getBulkKey())});
  }
  return peers;
}

std::map<Rank, uint64_t> ReadReplaced(capnp::List<wire::Replacement>::Reader list) {
  std::map<Rank, uint64_t> replaced;
  for (auto one : list) replaced[one.getRank()] = one.getFromCommand();
  return replaced;
}

SessionFacts ReadFacts(wire::SessionOpened::Reader reader) {
  SessionFacts facts;
  facts.id = SessionId(reader.getSession());
  facts.token = control::ToString(reader.getToken());
  facts.controller = Epoch(reader.getController());
  facts.lease = std::chrono::milliseconds(reader.getLeaseMillis());
  facts.flow_window_bytes = reader.getFlowWindowBytes();
  facts.max_batch_bytes = reader.getMaxBatchBytes();
  facts.num_workers = static_cast<int>(reader.getWorkers().size());
  facts.num_groups = static_cast<int>(reader.getRecord().getNumGroups());
  facts.client_number = reader.getRecord().getClientNumber();
  facts.client_name = control::ToString(reader.getRecord().getName());
  facts.bulk_key = control::ToString(reader.getRecord().getBulkKey());
  facts.forward_output = reader.getRecord().getForwardOutput();
  return facts;
}

SessionStart ReadStart(wire::SessionRecord::Reader reader) {
  const control::SessionRecord record = control::ReadSessionRecord(reader);
  return {record.generation, record.next_command, record.register_generations, record.names};
}

StatusOr<std::vector<WorkerOutput>> ReadOutput(wire::SessionOutput::Reader output,
                                               const control::Message& message) {
  std::vector<WorkerOutput> lines;
  if (output.getDropped() > 0) {
    lines.push_back({.rank = output.getRank(), .text = "", .dropped = output.getDropped()});
  }
  if (message.size() < 2) return lines;
  LOCKSTEP_RETURN_IF_ERROR(
      control::DecodeMessage<wire::OutputLines>(message[1], [&](wire::OutputLines::Reader reader) {
        for (auto line : reader.getLines()) {
          const auto text = line.getText();
          lines.push_back({output.getRank(),
                           line.getStream() == wire::OutputLine::Stream::STDOUT
                               ? WorkerOutput::Stream::kStdout
                               : WorkerOutput::Stream::kStderr,
                           std::string(reinterpret_cast<const char*>(text.begin()), text.size()),
                           line.getDropped()});
        }
        return OkStatus();
      }));
  return lines;
}

StatusOr<Value> ReadFetched(const control::Frame& body) {
  Value value;
  LOCKSTEP_RETURN_IF_ERROR(
      control::DecodeMessage<wire::Value>(body, [&](wire::Value::Reader reader) -> Status {
        LOCKSTEP_ASSIGN_OR_RETURN(value, control::ReadValue(reader));
        return OkStatus();
      }));
  return value;
}

std::string TicketOf(const SessionFacts& facts) {
  return std::to_string(facts.id.value) + "-" + facts.token;
}

}  // namespace lockstep::client
