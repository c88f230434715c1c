#include "services/worker/join/join.h"

#include <unistd.h>

#include <utility>
#include <variant>

#include "runtime/base/host_identity.h"
#include "runtime/base/log.h"
#include "runtime/base/version.h"
#include "runtime/control/input_waiter.h"
#include "runtime/control/message_codec.h"
#include "schemas/control.capnp.h"
#include "services/worker/join/envelope.h"

namespace lockstep::worker {
namespace {

using std::chrono::milliseconds;

// A worker that waits says hello again this often: the controller learns that it still waits, and
// one that was restarted learns of it at all.
constexpr milliseconds kHelloInterval{500};

void WriteInventory(const Inventory& inventory, wire::Resume::Builder resume) {
  resume.setController(inventory.controller.value);
  resume.setEpoch(inventory.epoch.value);
  resume.setWorkedEpoch(inventory.worked_epoch.value);
  resume.setWorldSize(static_cast<uint32_t>(inventory.world_size));
  auto sessions = resume.initSessions(static_cast<unsigned>(inventory.sessions.size()));
  for (unsigned i = 0; i < sessions.size(); ++i) {
    control::WriteSessionRecord(sessions[i], inventory.sessions[i]);
  }
}

control::Frame HelloFrame(const WorkerOptions& options, const Offer& offer) {
  return control::EncodeMessage<wire::WorkerMessage>([&](wire::WorkerMessage::Builder message) {
    auto hello = message.initHello();
    hello.setMinVersion(kOldestWorkerProtocolVersion);
    hello.setMaxVersion(kProtocolVersion);
    hello.setBuild(kBuildVersion);
    hello.setCluster(options.cluster);
    hello.setRank(offer.inventory.has_value() ? offer.inventory->rank : options.rank);
    auto host = hello.initHost();
    host.setName(ThisHost().name);
    host.setId(ThisHost().id);
    hello.setPid(getpid());
    hello.setDevice(options.device == kCpuDevice ? "cpu:0" : options.device);
    hello.setSegment(offer.segment);
    hello.setActivitySegment(offer.activity_segment);
    hello.setBulkEndpoint(offer.bulk_endpoint);
    hello.setBulkKey(offer.bulk_key);
    hello.setMetricsEndpoint(offer.metrics_endpoint);
    hello.setRelays(true);
    if (offer.inventory.has_value()) WriteInventory(*offer.inventory, hello.initResume());
  });
}

// None: the controller stops, and `sent_away` says why; or it waits, for others or until it can
// reach this worker: then `out_of_reach` says why it does not.
StatusOr<std::optional<Membership>> ReadAnswer(const control::Message& message,
                                               std::optional<std::string>* sent_away,
                                               std::string* out_of_reach) {
  LOCKSTEP_ASSIGN_OR_RETURN(Envelope envelope, ReadEnvelope(message));
  if (auto* membership = std::get_if<Membership>(&envelope.content)) return std::move(*membership);
  if (const auto* refused = std::get_if<Envelope::Refused>(&envelope.content)) {
    return Annotate(refused->why, "the controller refuses this worker");
  }
  if (const auto* shutdown = std::get_if<Envelope::Shutdown>(&envelope.content)) {
    *sent_away = shutdown->why;
    return std::optional<Membership>();
  }
  if (std::holds_alternative<BatchContext>(envelope.content)) {
    return Internal("the controller sent a batch before its welcome");
  }
  const auto* unreached = std::get_if<Envelope::OutOfReach>(&envelope.content);
  *out_of_reach = unreached == nullptr ? "" : unreached->why;
  return std::optional<Membership>();
}

}  // namespace

StatusOr<Membership> Join(control::ClientChannel& channel, const WorkerOptions& options,
                          const Offer& offer, int wake_fd, const std::atomic<bool>& stopping,
                          milliseconds patience, std::optional<std::string>* sent_away) {
  const control::Frame hello = HelloFrame(options, offer);
  Deadline deadline = Deadline::After(patience);
  control::InputWaiter waiter{milliseconds(0)};
  control::Channel* const channels[] = {&channel};
  std::string out_of_reach;
  std::string told;
  do {
    const Status sent = channel.Send({hello});
    // Where no controller lets it in there is nowhere to send it to yet.
    if (!sent.ok() && channel.trouble().ok()) return sent;
    const Deadline next_hello = Deadline::After(kHelloInterval).Earlier(deadline);
    if (const std::string trouble = Message(channel.trouble()); !trouble.empty()) {
      if (trouble != told) log::Warn(told = trouble, "; it is tried again");
    }
    while (waiter.Wait(channels, {&wake_fd, 1}, next_hello)) {
      if (stopping) return Aborted("the worker was stopped while it joined");
      control::Message message;
      if (!channel.Receive(&message)) continue;
      if (!message.empty()) {
        LOCKSTEP_RETURN_IF_ERROR(control::CheckProtocol(
            message[0], control::Protocol::kControllerToWorker, options.controller_endpoint));
      }
      LOCKSTEP_ASSIGN_OR_RETURN(std::optional<Membership> membership,
                                ReadAnswer(message, sent_away, &out_of_reach));
      if (sent_away->has_value()) return Aborted("the cluster was shut down: ", **sent_away);
      if (membership.has_value()) return std::move(*membership);
      if (!out_of_reach.empty() && out_of_reach != told) log::Warn(told = out_of_reach);
      // What it keeps is worth waiting for, as long as a controller answers.
      if (offer.inventory.has_value()) deadline = Deadline::After(patience);
    }
  } while (!deadline.Expired());
  std::string why = out_of_reach;
  if (why.empty()) why = Message(channel.trouble());
  if (why.empty()) why = "it does not run there, or not all workers have joined";
  return DeadlineExceeded("no welcome from the controller at ", options.controller_endpoint,
                          " within ", patience.count(), " ms: ", why);
}

Status SendGoodbye(control::ClientChannel& channel, const std::string& reason) {
  return channel.Send({control::EncodeMessage<wire::WorkerMessage>(
      [&](wire::WorkerMessage::Builder message) { message.setGoodbye(reason); })});
}

Status SendTrouble(control::ClientChannel& channel, const Membership& membership,
                   std::string_view why) {
  return channel.Send(
      {control::EncodeMessage<wire::WorkerMessage>([&](wire::WorkerMessage::Builder message) {
        auto trouble = message.initTrouble();
        trouble.setRank(membership.rank);
        trouble.setEpoch(membership.epoch.value);
        trouble.setWhy(std::string(why));
      })});
}

Status SendReady(control::ClientChannel& channel, const Membership& membership,
                 std::string_view backend, const std::string& why) {
  return channel.Send(
      {control::EncodeMessage<wire::WorkerMessage>([&](wire::WorkerMessage::Builder message) {
        auto ready = message.initReady();
        ready.setRank(membership.rank);
        ready.setBackend(std::string(backend));
        ready.setEpoch(membership.epoch.value);
        ready.setWhy(why);
      })});
}

}  // namespace lockstep::worker
