#include "services/controller/controller.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/control/direct/direct_door.h"
#include "runtime/control/direct/direct_server_channel.h"
#include "runtime/control/local_address.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/shm/ring_server_channel.h"
#include "runtime/control/tree/tree_server_channel.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "runtime/control/zmq/zmq_context.h"
#include "services/controller/channel_rings.h"
#include "services/controller/channel_tree.h"
#include "services/controller/dispatcher.h"
#include "services/controller/reports/metrics.h"
#include "services/controller/roles.h"
#include "services/controller/sessions/watched_clients.h"
#include "services/controller/world/liveness_monitor.h"
#include "services/controller/world/reach_back.h"
#include "services/metrics/metrics_server.h"

namespace lockstep::controller {
namespace {

// Messages taken from one channel before the other gets its turn.
constexpr int kMessagesPerTurn = 64;
// Unread messages of one client. One that behaves waits for a few answers at a time.
constexpr int kMaxUnread = 10'000;
// Further ones are reached by socket.
constexpr int kMostClientsByRing = 64;
// A client whose message was lost is heard again well within its lease (see below); a worker whose
// message was lost is lost.
constexpr std::chrono::seconds kLongestGapOfWorkers{10};
// What a rank of the largest world tells all others in one exchange.
constexpr int64_t kMaxLivenessBytes = int64_t{4} << 20;
// A worker that waits for its welcome says hello again about ten times in this time.
constexpr std::chrono::milliseconds kJoiningTimeout{5000};

Status CheckOptions(const ControllerOptions& options) {
  if (options.workers < 1 || options.workers > 4096) {
    return InvalidArgument("a cluster has 1 to 4096 workers, not ", options.workers);
  }
  if (options.worker_timeout < 2 * options.heartbeat_interval) {
    return InvalidArgument("worker_timeout (", options.worker_timeout.count(),
                           " ms) must be at least two of heartbeat_interval (",
                           options.heartbeat_interval.count(), " ms)");
  }
  return OkStatus();
}

// Puts rings before `channel` for up to `slots` of its peers, as command_rings says. Null: there
// are none.
StatusOr<control::RingServerChannel*> AddRings(const std::string& command_rings,
                                               control::RingServerChannel::Peers peers, int slots,
                                               std::chrono::milliseconds longest_gap,
                                               std::unique_ptr<control::ServerChannel>& channel) {
  if (command_rings == "off") return nullptr;
  auto with_rings =
      control::RingServerChannel::Create(std::move(channel), peers, slots, longest_gap);
  if (!with_rings.ok()) {
    if (command_rings == "on") return Annotate(with_rings.status(), "command_rings: on");
    log::Warn("commands go by socket: ", Message(with_rings.status()));
    return nullptr;
  }
  control::RingServerChannel* const rings = with_rings->get();
  channel = std::move(*with_rings);
  return rings;
}

// Puts a tree before `channel`, if there are as many workers as options say. Null: there is none.
control::TreeServerChannel* AddTree(const ControllerOptions& options,
                                    std::unique_ptr<control::ServerChannel>& channel) {
  if (options.relays_from == 0 || options.workers < options.relays_from) return nullptr;
  auto with_tree =
      std::make_unique<control::TreeServerChannel>(std::move(channel), options.relay_fan_out);
  control::TreeServerChannel* const tree = with_tree.get();
  channel = std::move(with_tree);
  return tree;
}

}  // namespace

StatusOr<std::unique_ptr<Controller>> Controller::Start(
    const ControllerOptions& options, const std::shared_ptr<control::ZmqContext>& context) {
  LOCKSTEP_RETURN_IF_ERROR(CheckOptions(options));
  LOCKSTEP_ASSIGN_OR_RETURN(const Gates gates, OpenGates(options));
  const control::ZmqOptions limits{
      .max_message_bytes = static_cast<int64_t>(options.max_batch_bytes),
      .max_unread = kMaxUnread,
      .gate = gates.clients};
  LOCKSTEP_ASSIGN_OR_RETURN(auto clients,
                            control::ZmqListen(context, options.client_endpoint, limits));
  LOCKSTEP_ASSIGN_OR_RETURN(
      auto workers,
      control::ZmqListen(context, options.worker_endpoint,
                         // The largest value that a worker sends has half of that; so may the
                         // inventory of a world's sessions.
                         {.max_message_bytes = control::kMostWorkerBytes, .gate = gates.workers}));
  LOCKSTEP_ASSIGN_OR_RETURN(
      auto liveness,
      control::ZmqListen(context, options.liveness_endpoint,
                         {.max_message_bytes = kMaxLivenessBytes, .gate = gates.workers}));
  using Peers = control::RingServerChannel::Peers;
  LOCKSTEP_ASSIGN_OR_RETURN(control::RingServerChannel* const client_rings,
                            AddRings(options.command_rings, Peers::kClients, kMostClientsByRing,
                                     options.session_lease, clients));
  control::TreeServerChannel* const worker_tree = AddTree(options, workers);
  LOCKSTEP_ASSIGN_OR_RETURN(control::RingServerChannel* const worker_rings,
                            AddRings(options.command_rings, Peers::kWorkers, options.workers,
                                     kLongestGapOfWorkers, workers));
  LOCKSTEP_ASSIGN_OR_RETURN(
      std::unique_ptr<Controller> controller,
      Start(options, {std::move(clients), std::move(workers), std::move(liveness), gates.clients,
                      client_rings, worker_rings, worker_tree}));
  if (!options.inproc_client_endpoint.empty()) {
    control::PublishDoor(context.get(), options.inproc_client_endpoint, controller->door_);
  }
  return controller;
}

StatusOr<std::unique_ptr<Controller>> Controller::Start(const ControllerOptions& options,
                                                        Channels channels) {
  LOCKSTEP_RETURN_IF_ERROR(CheckOptions(options));
  std::unique_ptr<Controller> controller(new Controller(options, std::move(channels)));
  // Its address is part of the cluster's status: it is known before a client can ask for that.
  LOCKSTEP_RETURN_IF_ERROR(controller->ServeMetrics());
  controller->OpenDoor();
  controller->thread_ = std::thread([self = controller.get()] { self->Run(); });
  return controller;
}

Status Controller::ServeMetrics() {
  if (options_.metrics_endpoint.empty()) return OkStatus();
  metrics::Answers answers;
  answers.metrics = [this] { return metrics_->Text(); };
  answers.started = [] { return OkStatus(); };
  answers.healthy = [this] { return metrics_->Healthy(); };
  answers.ready = [this] { return metrics_->Ready(); };
  answers.idle = [this] { return metrics_->Idle(); };
  LOCKSTEP_ASSIGN_OR_RETURN(metrics_server_, metrics::MetricsServer::Start(
                                                 options_.metrics_endpoint, std::move(answers)));
  dispatcher_->parts().status.SetMetricsEndpoint(metrics_server_->endpoint());
  log::Info("metrics at ", metrics_server_->endpoint(), "/metrics");
  return OkStatus();
}

Controller::Controller(const ControllerOptions& options, Channels channels)
    : options_(options),
      client_processes_(std::make_unique<WatchedClients>()),
      incarnation_(NewEpoch()),
      client_endpoint_(control::Advertise(channels.clients->endpoint(), options.advertise_address)),
      worker_endpoint_(control::Advertise(channels.workers->endpoint(), options.advertise_address)),
      liveness_endpoint_(
          control::Advertise(channels.liveness->endpoint(), options.advertise_address)),
      clients_(std::make_unique<control::DirectServerChannel>(std::move(channels.clients),
                                                              size_t{kMaxUnread})),
      workers_(std::move(channels.workers)),
      client_channel_rings_(channels.client_rings),
      worker_channel_rings_(channels.worker_rings),
      door_(std::make_shared<control::DirectDoor>(clients_.get())),
      client_rings_(std::make_unique<ChannelRings>(client_channel_rings_, clients_.get())),
      worker_rings_(std::make_unique<ChannelRings>(worker_channel_rings_)),
      worker_channel_tree_(channels.worker_tree),
      worker_tree_(std::make_unique<ChannelTree>(worker_channel_tree_)),
      metrics_(std::make_unique<Metrics>(options, clock_)),
      liveness_(std::make_unique<LivenessMonitor>(
          std::move(channels.liveness), options.workers,
          LivenessMonitor::Options{incarnation_, options.heartbeat_interval,
                                   std::max(kJoiningTimeout, options.worker_timeout),
                                   options.worker_timeout, client_endpoint_},
          [this](const WorkerLoss&) {
            std::lock_guard lock(events_mutex_);
            WakeLoop();
          },
          [this](const WorkerReport& report) {
            std::lock_guard lock(events_mutex_);
            report_events_.push_back(report);
            WakeLoop();
          },
          [this](Rank rank, wire::Heartbeat::Reader heartbeat) {
            metrics_->skew().Take(rank, heartbeat.getCollectives());
          },
          [this](FetchedTrace fetched) {
            std::lock_guard lock(events_mutex_);
            fetched_events_.push_back(std::move(fetched));
            WakeLoop();
          })),
      reach_back_(std::make_unique<ReachBack>([this] {
        std::lock_guard lock(events_mutex_);
        reach_results_ = true;
        WakeLoop();
      })),
      dispatcher_(std::make_unique<Dispatcher>(
          Surroundings{options_,
                       clock_,
                       *client_processes_,
                       *liveness_,
                       *reach_back_,
                       *client_rings_,
                       *worker_rings_,
                       *worker_tree_,
                       *metrics_,
                       std::move(channels.client_gate),
                       {liveness_endpoint_, incarnation_, client_endpoint_, worker_endpoint_}},
          [this](const std::string& reason) { RequestStop(reason); })) {
  dispatcher_->parts().outbox.SendWhenFull([this] { Flush(); });
  log::Info("cluster ", options_.cluster, ": clients at ", client_endpoint_, ", workers at ",
            worker_endpoint_, ", expecting ", options_.workers, " workers");
}

std::string Controller::metrics_endpoint() const {
  return metrics_server_ == nullptr ? "" : metrics_server_->endpoint();
}

Controller::~Controller() {
  RequestStop("the controller ends");
  if (thread_.joinable()) thread_.join();
}

void Controller::RequestStop(const std::string& reason) {
  std::lock_guard lock(events_mutex_);
  if (stop_requested_) return;
  stop_requested_ = true;
  stop_reason_ = reason;
  WakeLoop();
}

void Controller::WakeLoop() {
  has_events_ = true;
  wake_up_.Signal();
}

Status Controller::Wait(Deadline deadline) {
  std::unique_lock lock(stopped_mutex_);
  if (stopped_changed_.wait_until(lock, deadline.when(), [this] { return stopped_; })) {
    return OkStatus();
  }
  return DeadlineExceeded("the controller has not stopped");
}

void Controller::OpenDoor() {
  control::SharedLoop::Work work;
  work.turn = [this] { return ReceiveSome(); };
  work.next_turn = [this] { return dispatcher_->next_timer(); };
  work.by_memory = [this] { return workers_->by_memory(); };
  door_->loop.Open({clients_.get(), workers_.get()}, wake_up_, std::move(work));
}

void Controller::Run() {
  control::InputWaiter waiter(options_.poll_before_sleep);
  control::Channel* const channels[] = {clients_.get(), workers_.get()};
  const int descriptors[] = {wake_up_.fd()};
  auto turns = door_->loop.Lock();
  dispatcher_->HandleTimers();
  Flush();
  while (true) {
    // Busy clients must not keep a lost worker or a lease from being noticed.
    if (!ReceiveSome()) {
      waiter.Wait(channels, descriptors, dispatcher_->next_timer(), &door_->loop);
    }
    if (has_events_ && !HandleEvents()) break;
    if (dispatcher_->next_timer().Expired()) {
      dispatcher_->HandleTimers();
      Flush();
    }
  }
  door_->loop.Close();
  turns.unlock();
  Stop();
}

void Controller::LogDropped(const std::string& what, const Status& why,
                            const control::ServerChannel& channel) {
  const std::string line = dropped_.Note(what + Message(why), channel.SenderAddress());
  if (!line.empty()) log::Warn(line);
}

bool Controller::ReceiveSome() {
  control::PeerName peer;
  control::Message message;
  int received = 0;
  for (int i = 0; i < kMessagesPerTurn && workers_->Receive(&peer, &message); ++i, ++received) {
    const Status status = dispatcher_->HandleWorker(peer, message);
    if (!status.ok()) LogDropped("a worker's message was dropped: ", status, *workers_);
    Flush();
  }
  for (int i = 0; i < kMessagesPerTurn && clients_->Receive(&peer, &message); ++i, ++received) {
    const Status status = dispatcher_->HandleClient(peer, clients_->sender(), message);
    if (!status.ok()) LogDropped("a client's message was refused: ", status, *clients_);
    Flush();
  }
  received += HandleBrokenRings() + HandleBrokenPlaces();
  return received > 0;
}

int Controller::HandleBrokenRings() {
  int handled = 0;
  if (worker_channel_rings_ != nullptr) {
    for (const auto& broken : worker_channel_rings_->TakeBroken()) {
      dispatcher_->HandleBrokenRing(broken.peer, broken.why);
      Flush();
      ++handled;
    }
  }
  if (client_channel_rings_ != nullptr) {
    // It notices, and goes on by socket; what was lost is counted as what connections lose.
    for (const auto& broken : client_channel_rings_->TakeBroken()) {
      const std::string line =
          dropped_.Note("a client's ring was given up: " + Message(broken.why), broken.address);
      if (!line.empty()) log::Warn(line);
      ++handled;
    }
  }
  return handled;
}

int Controller::HandleBrokenPlaces() {
  if (worker_channel_tree_ == nullptr) return 0;
  int handled = 0;
  for (const auto& broken : worker_channel_tree_->TakeBroken()) {
    dispatcher_->HandleBrokenPlace(broken.peer, broken.why);
    Flush();
    ++handled;
  }
  return handled;
}

bool Controller::HandleEvents() {
  std::vector<WorkerReport> reports;
  std::vector<FetchedTrace> fetched;
  bool has_reach_results = false;
  bool go_on = true;
  {
    std::lock_guard lock(events_mutex_);
    wake_up_.Clear();
    has_events_ = false;
    reports.swap(report_events_);
    fetched.swap(fetched_events_);
    has_reach_results = std::exchange(reach_results_, false);
    go_on = !stop_requested_;
  }
  for (const WorkerReport& report : reports) dispatcher_->HandleReport(report);
  for (const FetchedTrace& part : fetched) dispatcher_->HandleFetched(part);
  dispatcher_->HandleLosses();
  if (has_reach_results) dispatcher_->HandleReachResults();
  Flush();
  return go_on;
}

void Controller::Flush() {
  Outbox& outbox = dispatcher_->parts().outbox;
  for (const Outbox::Item& item : outbox.items()) {
    switch (item.to) {
      case Outbox::Item::To::kAllWorkers:
        if (const Status status = workers_->Send(*item.workers, item.message); !status.ok()) {
          log::Error("batch ", item.batch.number, " was not sent: ", Message(status));
        }
        dispatcher_->parts().broadcaster.NoteSent(item.batch);
        break;
      case Outbox::Item::To::kWorker:
        (void)workers_->Send({&item.peer, 1}, item.message);
        break;
      case Outbox::Item::To::kClient:
        if (const Status status = clients_->Send({&item.peer, 1}, item.message); !status.ok()) {
          log::Warn("a client cannot be answered: ", Message(status));
        }
        break;
    }
  }
  outbox.Clear();
}

void Controller::Stop() {
  log::Info("cluster ", options_.cluster, " stops: ", stop_reason_);
  dispatcher_->EndSessions(stop_reason_);
  Flush();
  // Aborts are sent before the workers are told to end.
  liveness_->Stop();
  dispatcher_->Shutdown(stop_reason_);
  Flush();
  // Closing sends what is queued, within the sockets' linger time.
  clients_.reset();
  workers_.reset();
  std::lock_guard lock(stopped_mutex_);
  stopped_ = true;
  stopped_changed_.notify_all();
}

}  // namespace lockstep::controller
