#include "tools/bench/scale/simulated_worker.h"

#include <unistd.h>

#include <utility>
#include <variant>

#include "runtime/base/host_identity.h"
#include "runtime/base/version.h"
#include "runtime/control/batch.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/tree/tree_offer_codec.h"
#include "runtime/control/value_codec.h"
#include "runtime/control/worker_report_codec.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "schemas/control.capnp.h"
#include "services/worker/join/topology.h"

namespace lockstep::bench {
namespace {

// As real workers say things again (services/worker/join).
constexpr std::chrono::milliseconds kSayAgain{500};
// Which memory each maps, whether all are prepared, whether all are connected: the exchanges of
// ranks that share memory (services/worker/backends.cc).
constexpr int kExchanges = 3;

template <typename Fill>
control::Frame WorkerFrame(Fill&& fill) {
  return control::EncodeMessage<wire::WorkerMessage>(std::forward<Fill>(fill));
}

template <typename Fill>
control::Frame LivenessFrame(Fill&& fill) {
  return control::EncodeMessage<wire::LivenessMessage>(std::forward<Fill>(fill));
}

// Takes in all that has come. What is sent meanwhile may hide what comes, so it looks again.
template <typename Take>
Status Drain(control::ClientChannel& channel, Take&& take) {
  control::Message message;
  do {
    while (channel.Receive(&message)) LOCKSTEP_RETURN_IF_ERROR(take(message));
  } while (!channel.drained());
  return OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<SimulatedWorker>> SimulatedWorker::Start(
    std::shared_ptr<control::ZmqContext> context, const Options& options) {
  std::unique_ptr<SimulatedWorker> worker(new SimulatedWorker(std::move(context), options));
  LOCKSTEP_ASSIGN_OR_RETURN(worker->commands_,
                            control::ZmqConnect(worker->context_, options.endpoint));
  return worker;
}

Status SimulatedWorker::Go(Clock::time_point now) {
  if (now >= next_) {
    if (is_welcome_) {
      LOCKSTEP_RETURN_IF_ERROR(Beat(now));
    } else {
      LOCKSTEP_RETURN_IF_ERROR(SayHello());
      next_ = now + kSayAgain;
    }
  }
  LOCKSTEP_RETURN_IF_ERROR(TakeCommands());
  if (liveness_ == nullptr) return OkStatus();
  LOCKSTEP_RETURN_IF_ERROR(Drain(*liveness_, [this](const control::Message& message) {
    if (message.empty()) return OkStatus();
    return control::DecodeMessage<wire::LivenessMessage>(
        message[0], [&](wire::LivenessMessage::Reader reader) {
          return TakeLiveness(reader, message.size() > 1 ? message[1] : control::Frame());
        });
  }));
  // That it is ready goes with the commands.
  return TakeCommands();
}

absl::InlinedVector<control::Channel*, 4> SimulatedWorker::channels() {
  absl::InlinedVector<control::Channel*, 4> channels{commands_.get()};
  if (liveness_ != nullptr) channels.push_back(liveness_.get());
  if (!node_.has_value()) return channels;
  for (control::Channel* channel : node_->channels()) {
    if (channel != commands_.get()) channels.push_back(channel);
  }
  return channels;
}

Status SimulatedWorker::TakeCommands() {
  control::Message message;
  do {
    while (!node_.has_value() && commands_->Receive(&message)) {
      LOCKSTEP_RETURN_IF_ERROR(TakeCommand(message));
    }
  } while (!node_.has_value() && !commands_->drained());
  if (!node_.has_value()) return OkStatus();
  // Answers leave with the next look.
  for (bool again = true; again;) {
    node_->Go();
    again = !delivered_.empty();
    while (!delivered_.empty()) {
      message = std::move(delivered_.front());
      delivered_.pop_front();
      LOCKSTEP_RETURN_IF_ERROR(TakeCommand(message));
    }
  }
  return OkStatus();
}

Status SimulatedWorker::SendUp(control::Frame frame) {
  if (!node_.has_value()) return commands_->Send({std::move(frame)});
  node_->Send({std::move(frame)});
  return OkStatus();
}

void SimulatedWorker::TakePlace(const control::TreeOffer& offer) {
  if (!node_.has_value()) {
    control::TreeConnections connections;
    connections.listen =
        [this](const std::shared_ptr<control::Gate>&) -> StatusOr<control::RelayListener> {
      const std::string endpoint = options_.relay_endpoint + "-" + std::to_string(++relays_);
      LOCKSTEP_ASSIGN_OR_RETURN(auto channel, control::ZmqListen(context_, endpoint));
      return control::RelayListener{std::move(channel), endpoint};
    };
    // By files of this user's alone: no keys.
    connections.connect = [this](const std::string& endpoint, const control::CredentialSource&) {
      return control::ZmqConnect(context_, endpoint);
    };
    node_.emplace(*commands_, std::move(connections),
                  [this](control::Message message) { delivered_.push_back(std::move(message)); });
  }
  node_->Begin(offer);
}

Status SimulatedWorker::SayHello() {
  const std::string name = options_.cluster + "-" + std::to_string(options_.rank);
  return commands_->Send({WorkerFrame([&](wire::WorkerMessage::Builder message) {
    auto hello = message.initHello();
    hello.setMinVersion(kOldestWorkerProtocolVersion);
    hello.setMaxVersion(kProtocolVersion);
    hello.setBuild(kBuildVersion);
    hello.setCluster(options_.cluster);
    hello.setRank(options_.rank);
    auto host = hello.initHost();
    host.setName(ThisHost().name);
    host.setId(ThisHost().id);
    hello.setPid(getpid());
    hello.setDevice("cpu:0");
    // As long as real ones; there is no such memory, and nothing listens there.
    hello.setRelays(!options_.relay_endpoint.empty());
    hello.setSegment("simulated-arena-" + name);
    hello.setBulkEndpoint("inproc://simulated-bulk-" + name);
  })});
}

Status SimulatedWorker::Beat(Clock::time_point now) {
  said_ = now;
  next_ = now + worker::LongestBetweenHeartbeats(membership_.heartbeat_interval);
  LOCKSTEP_RETURN_IF_ERROR(SayHeartbeat());
  return exchanges_left_ > 0 ? SayOffer() : OkStatus();
}

Status SimulatedWorker::SayHeartbeat() {
  return liveness_->Send({LivenessFrame([&](wire::LivenessMessage::Builder message) {
    auto heartbeat = message.initHeartbeat();
    heartbeat.setRank(membership_.rank);
    heartbeat.setController(membership_.controller.value);
    heartbeat.setWatch(membership_.watch);
    control::WriteActivity(activity_, heartbeat.initActivity());
  })});
}

Status SimulatedWorker::SayOffer() {
  const auto size = static_cast<size_t>(membership_.world_size());
  worker::MappedRanks mapped;
  mapped.ranks.assign(size, true);
  const bool is_first = exchanges_left_ == kExchanges;
  const std::string offer = is_first ? worker::ToText(mapped) : "";
  return liveness_->Send({LivenessFrame([&](wire::LivenessMessage::Builder message) {
    auto exchange = message.initExchange();
    exchange.setRank(membership_.rank);
    exchange.setController(membership_.controller.value);
    exchange.setWatch(membership_.watch);
    exchange.setEpoch(membership_.epoch.value);
    exchange.setNumber(exchange_);
    exchange.setKey(static_cast<uint64_t>(exchanges_left_));
    auto members = exchange.initMembers(static_cast<unsigned>(size));
    for (unsigned i = 0; i < members.size(); ++i) members.set(i, static_cast<Rank>(i));
    exchange.initOffers(1).set(0,
                               {reinterpret_cast<const capnp::byte*>(offer.data()), offer.size()});
  })});
}

Status SimulatedWorker::TakeCommand(const control::Message& message) {
  bool is_welcome = false;
  LOCKSTEP_RETURN_IF_ERROR(
      control::DecodeMessage<wire::Envelope>(message[0], [&](wire::Envelope::Reader envelope) {
        is_welcome = envelope.isWelcome();
        if (!is_welcome) return OkStatus();
        if (message.size() < 2) return Internal("a welcome without arenas");
        return Enter(Epoch(envelope.getEpoch()), envelope.getWelcome(), message[1]);
      }));
  if (is_welcome) return OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(worker::Envelope envelope, worker::ReadEnvelope(message));
  if (const auto* refused = std::get_if<worker::Envelope::Refused>(&envelope.content)) {
    return refused->why;
  }
  if (const auto* unreached = std::get_if<worker::Envelope::OutOfReach>(&envelope.content)) {
    return Unavailable(unreached->why);
  }
  if (const auto* batch = std::get_if<worker::BatchContext>(&envelope.content)) {
    return TakeBatch(*batch, envelope.sequence, message[1]);
  }
  return OkStatus();  // it waits, or the controller stops
}

Status SimulatedWorker::Enter(Epoch epoch, wire::Welcome::Reader welcome,
                              const control::Frame& arenas) {
  membership_.epoch = epoch;
  membership_.rank = welcome.getRank();
  membership_.controller = Epoch(welcome.getController());
  membership_.watch = welcome.getWatch();
  membership_.heartbeat_interval = control::Millis(welcome.getHeartbeatMillis());
  membership_.flow_window_bytes = welcome.getFlowWindowBytes();
  membership_.sequence = welcome.getSequence();
  membership_.segments.clear();
  LOCKSTEP_RETURN_IF_ERROR(
      control::DecodeMessage<wire::Arenas>(arenas, [&](wire::Arenas::Reader reader) {
        membership_.segments.resize(reader.getSegments().size());
        return OkStatus();
      }));
  if (liveness_ == nullptr) {
    const std::string endpoint = control::ToString(welcome.getLivenessEndpoint());
    LOCKSTEP_ASSIGN_OR_RETURN(liveness_, control::ZmqConnect(context_, endpoint));
    ++changes_;
  }
  if (welcome.hasRelayTree()) TakePlace(control::ReadTreeOffer(welcome.getRelayTree()));
  last_sequence_ = membership_.sequence;
  is_welcome_ = true;
  is_ready_ = false;
  exchanges_left_ = kExchanges;
  ++exchange_;
  return Beat(Clock::now());
}

Status SimulatedWorker::TakeBatch(const worker::BatchContext& batch, uint64_t sequence,
                                  const control::Frame& body) {
  if (sequence != last_sequence_ + 1) {
    return Internal("rank ", options_.rank, " took batch ", sequence, " after batch ",
                    last_sequence_);
  }
  last_sequence_ = activity_.received = sequence;
  bool asks = false;
  Status answer;
  control::BatchReader reader(body);
  while (!reader.AtEnd()) {
    LOCKSTEP_RETURN_IF_ERROR(reader.Next([&](wire::Command::Reader command) {
      ++activity_.launched;
      ++activity_.completed;
      const bool is_mine = command.getOnlyRank() < 0 || command.getOnlyRank() == membership_.rank;
      if (command.isCall()) ++calls_;
      const bool is_controllers = batch.first_command == 0 && !command.isOpenSession();
      if (command.isSync() || is_controllers) asks = is_mine;
      if (command.isFetch() || command.isStore() || command.isLocate() || command.isFindLayout()) {
        asks = is_mine;
        answer = Unimplemented("a simulated worker holds nothing");
      }
      return OkStatus();
    }));
  }
  if (asks && batch.request != RequestId()) LOCKSTEP_RETURN_IF_ERROR(Reply(batch, answer));
  if (batch.first_command == 0) return OkStatus();
  if (session_ != batch.session) {
    session_ = batch.session;
    consumed_bytes_ = reported_bytes_ = 0;
  }
  consumed_bytes_ += control::FlowCost(body.size());
  if (consumed_bytes_ - reported_bytes_ < membership_.flow_window_bytes / 8) return OkStatus();
  reported_bytes_ = consumed_bytes_;
  return SendUp(WorkerFrame([&](wire::WorkerMessage::Builder message) {
    auto consumed = message.initConsumed();
    consumed.setSession(session_.value);
    consumed.setBytes(consumed_bytes_);
  }));
}

Status SimulatedWorker::Reply(const worker::BatchContext& batch, const Status& status) {
  return SendUp(WorkerFrame([&](wire::WorkerMessage::Builder message) {
    auto reply = message.initReply();
    reply.setSession(batch.session.value);
    reply.setGeneration(batch.generation.value);
    reply.setRequest(batch.request.value);
    if (!status.ok()) control::WriteError(reply.initError(), control::ErrorOf(status));
  }));
}

Status SimulatedWorker::TakeLiveness(wire::LivenessMessage::Reader message,
                                     const control::Frame& body) {
  if (message.isDismissed()) {
    return Aborted("rank ", options_.rank,
                   " was given up: ", control::ToString(message.getDismissed()));
  }
  // Real ones say theirs with the controller's, too.
  if (message.isHeartbeat() && Clock::now() - said_ >= membership_.heartbeat_interval / 2) {
    return Beat(Clock::now());
  }
  if (message.isProbe()) {
    const uint64_t probe = message.getProbe();
    return liveness_->Send({LivenessFrame([&](wire::LivenessMessage::Builder answer) {
      auto report = answer.initReport();
      report.setProbe(probe);
      report.setRank(membership_.rank);
      report.setController(membership_.controller.value);
      report.setWatch(membership_.watch);
      control::WriteActivity(activity_, report.initActivity());
    })});
  }
  if (message.isAskRegisters()) {
    const auto question = message.getAskRegisters();
    if (question.getRank() >= 0 && question.getRank() != membership_.rank) return OkStatus();
    return liveness_->Send({LivenessFrame([&](wire::LivenessMessage::Builder answer) {
      auto held = answer.initHeldRegisters();
      held.setProbe(question.getProbe());
      held.setRank(membership_.rank);
      held.setController(membership_.controller.value);
      held.setWatch(membership_.watch);
      control::WriteActivity(activity_, held.initActivity());
    })});
  }
  if (message.isExchanged()) {
    const auto exchanged = message.getExchanged();
    if (exchanged.getNumber() != exchange_ || exchanges_left_ == 0) return OkStatus();
    if (exchanged.getMissing().size() > 0) return OkStatus();
    unsigned offers = 0;
    LOCKSTEP_RETURN_IF_ERROR(
        control::DecodeMessage<wire::OfferList>(body, [&](wire::OfferList::Reader list) {
          offers = list.getOffers().size();
          return OkStatus();
        }));
    if (offers != static_cast<unsigned>(membership_.world_size())) {
      return Internal("rank ", options_.rank, " was told the offers of ", offers, " ranks");
    }
    if (--exchanges_left_ > 0) {
      ++exchange_;
      return SayOffer();
    }
    is_ready_ = true;
    return SendUp(WorkerFrame([&](wire::WorkerMessage::Builder ready_message) {
      auto ready = ready_message.initReady();
      ready.setRank(membership_.rank);
      ready.setEpoch(membership_.epoch.value);
      ready.setBackend("simulated");
      ready.setWhy("nothing connects the ranks");
    }));
  }
  return OkStatus();
}

}  // namespace lockstep::bench
