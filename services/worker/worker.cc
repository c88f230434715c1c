#include "services/worker/worker.h"

#include <optional>
#include <utility>
#include <variant>

#include "absl/cleanup/cleanup.h"
#include "absl/container/inlined_vector.h"
#include "runtime/base/log.h"
#include "runtime/base/random.h"
#include "runtime/control/input_waiter.h"
#include "runtime/control/local_address.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "runtime/module/builtins.h"
#include "services/worker/backends.h"
#include "services/worker/gpu/gpu_watch.h"
#include "services/worker/join/addresses.h"
#include "services/worker/join/envelope.h"
#include "services/worker/join/rank_source.h"

namespace lockstep::worker {
namespace {

constexpr std::chrono::hours kUntilWoken{1};
constexpr std::chrono::milliseconds kLookAtGpuEvery{1};
constexpr std::chrono::seconds kLookAtIdleGpuEvery{1};
constexpr std::chrono::seconds kLongestEnd{2};
// A controller that has welcomed this worker hands its memory over at once, or not at all.
constexpr std::chrono::seconds kLongestHandOver{5};
// Answers that wait for a client that does not read: further ones are dropped, for it to ask again.
constexpr int kMaxUnreadChunks = 64;
// Messages that wait in a tree of relays for one worker that does not read: what is dropped beyond
// them is a gap, and that worker gets them from the controller.
constexpr int kMostUnreadInTree = 1000;
constexpr char kActivitySuffix[] = "-activity";

StatusOr<std::unique_ptr<BulkServer>> ListenForBulk(
    const WorkerOptions& options, const std::shared_ptr<control::ZmqContext>& context,
    bool with_keys, const std::function<bool()>& must_stop) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string endpoint, AwaitBulkEndpoint(options, must_stop));
  // Where tcp leads to, or nothing: others the kernel keeps apart.
  const bool asks_for_keys = with_keys && !control::HostOf(endpoint).empty();
  const auto gate = asks_for_keys ? std::make_shared<BulkGate>() : nullptr;
  LOCKSTEP_ASSIGN_OR_RETURN(auto channel,
                            control::ZmqListen(control::BulkContext(context, endpoint), endpoint,
                                               {.max_message_bytes = kMaxBulkChunkBytes,
                                                .max_unread = kMaxUnreadChunks,
                                                .low_priority = true,
                                                .gate = gate}));
  return std::make_unique<BulkServer>(std::move(channel), gate);
}

}  // namespace

StatusOr<std::unique_ptr<Worker>> Worker::Start(const WorkerOptions& given,
                                                std::shared_ptr<control::ZmqContext> context,
                                                OutputForwarder* forwarder,
                                                const std::function<bool()>& must_stop) {
  WorkerOptions options = given;
  LOCKSTEP_ASSIGN_OR_RETURN(options.rank, ChooseRank(given, ThisProcess()));
  // Later it would have to leave the others alone.
  LOCKSTEP_RETURN_IF_ERROR(CheckDevice(options));
  // What killed processes left behind would otherwise stay until the machine restarts.
  SharedSegment::Sweep(SharedSegment::kNamePrefix);
  tensor::ArenaOptions arena_options;
  arena_options.name = SharedSegment::kNamePrefix + RandomHex(8);
  arena_options.capacity_bytes = options.arena_bytes;
  arena_options.control_bytes = options.communicator_bytes;
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<tensor::Arena> arena,
                            tensor::Arena::Create(arena_options));
  // With the arena's name in front, so that both are swept together.
  LOCKSTEP_ASSIGN_OR_RETURN(auto activity,
                            control::ActivityPage::Create(arena_options.name + kActivitySuffix));
  LOCKSTEP_ASSIGN_OR_RETURN(control::CredentialSource credentials,
                            control::CredentialsFrom(options.key, options.controller_key));
  LOCKSTEP_ASSIGN_OR_RETURN(
      std::unique_ptr<BulkServer> bulk,
      ListenForBulk(options, context, /*with_keys=*/credentials != nullptr, must_stop));
  std::unique_ptr<Worker> worker(new Worker(options, std::move(credentials), std::move(context),
                                            std::move(arena), std::move(activity),
                                            std::move(bulk)));
  worker->forwarder_ = forwarder;
  LOCKSTEP_RETURN_IF_ERROR(worker->ConnectToController());
  LOCKSTEP_RETURN_IF_ERROR(worker->ServeMetrics());
  worker->thread_ = std::thread([worker = worker.get()] { worker->Run(); });
  return worker;
}

Status Worker::ServeMetrics() {
  if (options_.metrics_endpoint.empty()) return OkStatus();
  metrics::Answers answers;
  answers.metrics = [this] { return metrics_.Text(); };
  answers.started = [this] { return metrics_.Started(); };
  answers.healthy = [this] { return metrics_.Healthy(); };
  answers.ready = [this] { return metrics_.Ready(); };
  answers.idle = [this] { return Idle(); };
  LOCKSTEP_ASSIGN_OR_RETURN(metrics_server_, metrics::MetricsServer::Start(
                                                 options_.metrics_endpoint, std::move(answers)));
  log::Info("metrics at ", metrics_server_->endpoint(), "/metrics");
  return OkStatus();
}

Worker::Worker(const WorkerOptions& options, control::CredentialSource credentials,
               std::shared_ptr<control::ZmqContext> context, std::shared_ptr<tensor::Arena> arena,
               std::shared_ptr<control::ActivityPage> activity, std::unique_ptr<BulkServer> bulk)
    : options_(options),
      credentials_(std::move(credentials)),
      context_(std::move(context)),
      arena_(std::move(arena)),
      bulk_(std::move(bulk)),
      activity_(std::move(activity)),
      metrics_(*arena_, *activity_, *bulk_),
      execution_(metrics_, options.controller_grace),
      tracer_(metrics_.recorder().spans().ring(), bulk_->ring(), options.clock_shift) {
  module::AddBuiltins(functions_);
}

Worker::~Worker() {
  RequestStop("the worker ends");
  if (thread_.joinable()) thread_.join();
}

StatusOr<std::unique_ptr<control::ClientChannel>> Worker::ConnectTo(
    const std::string& endpoint, std::chrono::milliseconds linger) {
  control::ZmqOptions options;
  options.linger = linger;
  options.credentials = credentials_;
  // A worker that waits says hello again, and nothing else before it is welcome.
  options.keeps_unsent = false;
  return control::ZmqConnect(context_, endpoint, options);
}

Status Worker::ConnectToController() {
  LOCKSTEP_ASSIGN_OR_RETURN(auto sockets, ConnectTo(options_.controller_endpoint));
  controller_.reset();
  rings_ = std::make_unique<control::RingClientChannel>(std::move(sockets),
                                                        control::RingClientChannel::AtEnd::kStop);
  controller_ = std::make_unique<control::TreeClientChannel>(*rings_, ConnectionsInTree(),
                                                             options_.poll_before_sleep);
  return OkStatus();
}

control::TreeConnections Worker::ConnectionsInTree() {
  const auto listen =
      [this](const std::shared_ptr<control::Gate>& gate) -> StatusOr<control::RelayListener> {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string endpoint, RelayEndpoint(options_));
    control::RelayListener listener;
    LOCKSTEP_ASSIGN_OR_RETURN(listener.channel,
                              control::ZmqListen(context_, endpoint,
                                                 {.max_message_bytes = control::kMostRelayedBytes,
                                                  .max_unread = kMostUnreadInTree,
                                                  .gate = gate}));
    // Not `advertise_address`, which is for clients: other workers connect to where it listens.
    listener.endpoint = listener.channel->endpoint();
    return listener;
  };
  const auto connect = [this](const std::string& endpoint, control::CredentialSource credentials)
      -> StatusOr<std::unique_ptr<control::ClientChannel>> {
    // As RelayEndpoint() has it: what another worker says is no way to sockets of this host.
    if (!endpoint.starts_with("tcp://") || credentials == nullptr) {
      return InvalidArgument("a worker that passes commands on listens at \"", endpoint, "\"");
    }
    control::ZmqOptions options;
    options.max_not_taken = kMostUnreadInTree;
    options.credentials = std::move(credentials);
    return control::ZmqConnect(context_, endpoint, options);
  };
  return {listen, connect};
}

void Worker::TakePlace() { controller_->Begin(membership_.tree); }

Status Worker::TakeRing() {
  if (options_.command_rings == "off" || rings_->is_attached()) return OkStatus();
  const Status taken = TryToTakeRing();
  if (taken.ok()) {
    log::Info("commands come through memory that is shared with the controller");
    return OkStatus();
  }
  if (options_.command_rings == "on") {
    return FailedPrecondition("command_rings: on, but ", Message(taken));
  }
  if (!membership_.ring.nonce.empty()) log::Info("commands come by socket: ", Message(taken));
  return OkStatus();
}

Status Worker::TryToTakeRing() {
  if (membership_.ring.nonce.empty()) {
    return FailedPrecondition(
        "the controller offers no memory: its command_rings is off, its kernel has none for that, "
        "or its relays_from has other workers pass commands on");
  }
  // A tree's thread owns what would be attached, also in worlds without a tree.
  if (controller_->has_tree()) {
    return FailedPrecondition("this worker has been in a world in which others passed commands on");
  }
  return rings_->Attach(membership_.ring, Deadline::After(kLongestHandOver));
}

Status Worker::Idle() {
  const size_t sessions = execution_.CountSessions();
  return sessions == 0 ? OkStatus() : Unavailable("open sessions: ", sessions);
}

bool Worker::LeftThreadsBehind() {
  return !AwaitDeviceEndings(Deadline::After(std::chrono::seconds(0))) || GpuWatch::AnyLeftBehind();
}

Status Worker::Wait(Deadline deadline) {
  std::unique_lock lock(end_mutex_);
  if (ended_changed_.wait_until(lock, deadline.when(), [this] { return ended_; })) {
    return end_status_;
  }
  return DeadlineExceeded("the worker has not ended");
}

void Worker::Run() {
  const Status status = Work();
  if (!status.ok()) log::Error("worker ends: ", Message(status));
  // The others should not have to wait until the silence of a worker is noticed. A controller that
  // has sent its workers away listens no more.
  if (!sent_away_) {
    (void)SendGoodbye(*controller_, status.ok() ? execution_.stop_reason() : Message(status));
  }
  world_.Close();
  if (!AwaitDeviceEndings(Deadline::After(kLongestEnd))) {
    log::Warn(
        "an NCCL communicator has not ended, for its GPU or another rank, and is left behind");
  }
  EndBackends();
  metrics_.NoteEnd(status);
  std::lock_guard lock(end_mutex_);
  ended_ = true;
  // Wait() says kDeadlineExceeded for a worker that has not ended; one that gave up waiting has.
  end_status_ =
      status.code() == StatusCode::kDeadlineExceeded ? Unavailable(Message(status)) : status;
  ended_changed_.notify_all();
}

Status Worker::Work() {
  // Else the others would wait for a rank that cannot be connected.
  LOCKSTEP_RETURN_IF_ERROR(AnyBackendAvailable());
  Executor executor(options_, arena_, functions_, *bulk_, *activity_,
                    options_.counts ? &metrics_.recorder() : nullptr);
  executor.ForwardOutputBy(forwarder_);
  // Other threads reach the executor from here until this function returns.
  execution_.SetExecutor(&executor);
  const absl::Cleanup withdraw = [this] { execution_.SetExecutor(nullptr); };

  LOCKSTEP_ASSIGN_OR_RETURN(std::string bulk_endpoint, AdvertisedAs(bulk_->endpoint(), options_));
  LOCKSTEP_ASSIGN_OR_RETURN(std::string metrics_endpoint,
                            MetricsAdvertisedAs(this->metrics_endpoint(), options_));
  Offer offer{arena_->name(), arena_->name() + kActivitySuffix, std::move(bulk_endpoint),
              bulk_->key(), std::move(metrics_endpoint)};
  std::chrono::milliseconds patience = options_.join_timeout;
  while (true) {
    const Status served = ServeController(executor, offer, patience);
    if (const std::optional<Status> why = execution_.WhyItEnds(served)) {
      // What is on a GPU that is lost may take long to end: the others should not wait for it.
      if (!executor.gpu_loss().ok()) {
        (void)SendGoodbye(*controller_, Message(*why));
        sent_away_ = true;
      }
      return offer.inventory.has_value()
                 ? Annotate(*why, "its controller was lost, and what its sessions held with it")
                 : *why;
    }
    // One that was never in a world has nothing, and no rank.
    const bool was_in_a_world = membership_.controller != Epoch();
    if (was_in_a_world) {
      offer.inventory =
          Inventory{membership_.rank, membership_.controller,   membership_.epoch,
                    worked_epoch_,    membership_.world_size(), executor.sessions().Inventory()};
    }
    // A connection of its own: what is queued for the lost controller is for no other one.
    LOCKSTEP_RETURN_IF_ERROR(ConnectToController());
    patience = was_in_a_world ? options_.controller_grace : options_.join_timeout;
  }
}

Status Worker::ServeController(Executor& executor, const Offer& offer,
                               std::chrono::milliseconds patience) {
  std::optional<std::string> sent_away;
  auto joined = Join(*controller_, options_, offer, execution_.wake_fd(), execution_.interrupted(),
                     patience, &sent_away);
  if (sent_away.has_value()) {
    OnShutdown(*sent_away);
    return OkStatus();
  }
  LOCKSTEP_RETURN_IF_ERROR(joined.status());
  Membership membership = *std::move(joined);
  executor.sessions().SetController(membership);
  bulk_->SetClientEndpoint(membership.client_endpoint);
  metrics_.NoteJoined();
  // A controller that listens at all of its addresses is reached at the one that led here.
  if (control::IsAnyAddress(control::HostOf(membership.liveness_endpoint))) {
    membership.liveness_endpoint = control::WithHost(membership.liveness_endpoint,
                                                     control::HostOf(options_.controller_endpoint));
  }
  // Before the ranks connect: that may take longer than a silent worker is given.
  LOCKSTEP_ASSIGN_OR_RETURN(auto liveness_channel,
                            ConnectTo(membership.liveness_endpoint, std::chrono::milliseconds(0)));
  LivenessClient liveness(
      std::move(liveness_channel),
      {membership.rank, membership.controller, membership.watch, membership.heartbeat_interval,
       options_.controller_timeout, &metrics_.recorder().arrivals(), &metrics_.liveness_health(),
       &tracer_, &executor.register_queries()},
      *activity_, pthread_self(),
      {[this](SessionId session, const AbortOrder& abort) {
         execution_.AbortSession(session, abort);
       },
       [this](Epoch epoch) { execution_.OnWorldBroken(epoch); },
       [this](const Status& why) { execution_.OnControllerLost(why); },
       [this](const Status& why) { execution_.OnDismissed(why); }});
  rendezvous_ = liveness.rendezvous();
  // From now on its aborts arrive.
  LOCKSTEP_RETURN_IF_ERROR(liveness.WaitUntilHeard(execution_.wake_fd(), execution_.interrupted(),
                                                   Deadline::After(patience)));
  LOCKSTEP_RETURN_IF_ERROR(Enter(executor, std::move(membership)));
  return Serve(executor);
}

Status Worker::Enter(Executor& executor, Membership membership) {
  membership_ = std::move(membership);
  log::ThisThread().rank = membership_.rank;
  log::ThisThread().epoch = membership_.epoch.value;
  world_.Abandon();
  executor.AdoptWelcome(membership_, *controller_);
  world_.Close();
  const Status ring = TakeRing();
  TakePlace();
  last_sequence_ = membership_.sequence;
  activity_->Receive(last_sequence_);
  execution_.BeginConnecting(membership_.rank, membership_.epoch);
  // A rank may come late: it finishes what it executes first. No rank may give up alone
  // meanwhile, for those that have found it already would rely on what it leaves behind. When a
  // rank is lost, all are told.
  rendezvous_->Enter(membership_.epoch);
  const Status connected =
      world_.Connect(membership_, rendezvous_, execution_.cancel_connecting(),
                     {executor, *bulk_, metrics_}, [this](const Status& why) {
                       log::Warn("worker tries to connect again: ", Message(why));
                       (void)SendTrouble(*controller_, membership_, Message(why));
                     });
  if (!connected.ok()) {
    // Cancelled: a rank was lost, and there will be another world; or this worker ends.
    if (connected.code() != StatusCode::kAborted) return connected;
    log::Warn("worker is not connected in epoch ", membership_.epoch.value, ": ",
              Message(connected));
    return OkStatus();
  }
  executor.SetWorld(world_.links());
  execution_.EndConnecting();
  // Only now: had the controller been lost meanwhile, this worker would wait for another one.
  LOCKSTEP_RETURN_IF_ERROR(ring);
  const std::string_view backend = world_.links().cpus->backend();
  log::Info("worker ", membership_.rank, " of ", membership_.world_size(), " in cluster ",
            membership_.cluster, " is ready, backend ", backend, " (", world_.why(), ")");
  return SendReady(*controller_, membership_, backend, world_.why());
}

Status Worker::Serve(Executor& executor) {
  control::InputWaiter waiter(options_.poll_before_sleep);
  control::Channel* const channels[] = {controller_.get()};
  control::Message message;
  while (!execution_.interrupted()) {
    while (!execution_.interrupted() && controller_->Receive(&message)) {
      LOCKSTEP_ASSIGN_OR_RETURN(const bool go_on, Handle(executor, message));
      if (!go_on) return OkStatus();
      LOCKSTEP_RETURN_IF_ERROR(executor.gpu_loss());
    }
    LOCKSTEP_RETURN_IF_ERROR(rings_->failure());
    executor.LookAtGpu();
    LOCKSTEP_RETURN_IF_ERROR(executor.gpu_loss());
    LentMemoryReclaimer& lent_memory = executor.sessions().lent_memory();
    lent_memory.FreeEnded();
    executor.AnswerRegisterQueries();
    executor.fragments().AnswerCompiled();
    absl::InlinedVector<int, 8> descriptors = {
        execution_.wake_fd(), executor.register_queries().fd(), executor.fragments().fd()};
    descriptors.insert(descriptors.end(), lent_memory.descriptors().begin(),
                       lent_memory.descriptors().end());
    // An idle GPU may be lost, too.
    const Deadline until = executor.IsGpuBusy()      ? Deadline::After(kLookAtGpuEvery)
                           : world_.gpu() != nullptr ? Deadline::After(kLookAtIdleGpuEvery)
                                                     : Deadline::After(kUntilWoken);
    waiter.Wait(channels, descriptors, until);
  }
  return OkStatus();
}

void Worker::OnShutdown(const std::string& why) {
  sent_away_ = true;
  log::Info("the controller stops, and sends its workers away: ", why);
}

StatusOr<bool> Worker::Handle(Executor& executor, const control::Message& message) {
  LOCKSTEP_ASSIGN_OR_RETURN(Envelope envelope, ReadEnvelope(message));
  if (const auto* shutdown = std::get_if<Envelope::Shutdown>(&envelope.content)) {
    OnShutdown(shutdown->why);
    return false;
  }
  if (auto* welcome = std::get_if<Membership>(&envelope.content)) {
    if (welcome->rank != membership_.rank || welcome->epoch <= membership_.epoch) {
      return Internal("a welcome as rank ", welcome->rank, " in epoch ", welcome->epoch,
                      " for rank ", membership_.rank, " in epoch ", membership_.epoch);
    }
    LOCKSTEP_RETURN_IF_ERROR(Enter(executor, std::move(*welcome)));
    return true;
  }
  if (envelope.epoch != membership_.epoch) {
    return Internal("a message of epoch ", envelope.epoch, " in epoch ", membership_.epoch);
  }
  if (const auto* refused = std::get_if<Envelope::Refused>(&envelope.content)) return refused->why;
  if (auto* batch = std::get_if<BatchContext>(&envelope.content)) {
    batch->taken = Recorder::Clock::now();
    if (membership_.controller_is_here) {
      batch->times.in_transit = batch->taken.time_since_epoch() - batch->sent;
    }
    return HandleBatch(executor, *batch, envelope.sequence, message[1]);
  }
  return Internal("the controller tells a worker to wait that it has welcomed");
}

StatusOr<bool> Worker::HandleBatch(Executor& executor, const BatchContext& batch, uint64_t sequence,
                                   const control::Frame& body) {
  // Going on after a gap would be silently wrong: registers would miss what others have.
  if (sequence != last_sequence_ + 1) {
    // A controller that has ended took along what was to come by ring. All that follows is lost,
    // too; this worker waits for another controller, as those do that have got less.
    if (rings_->detached()) return true;
    return Internal("batch ", sequence, " came after batch ", last_sequence_,
                    "; some were lost on the way");
  }
  last_sequence_ = sequence;
  activity_->Receive(sequence);
  worked_epoch_ = membership_.epoch;
  executor.ExecuteBatch(batch, body);
  return true;
}

}  // namespace lockstep::worker
