#include "services/controller/controller.h"

#include <algorithm>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/control/local_address.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "services/controller/epoch.h"
#include "services/controller/gates.h"

namespace lockstep::controller {
namespace {

// Messages taken from one channel before the other gets its turn.
constexpr int kMessagesPerTurn = 64;
// Timers are looked at no more often than this, ...
constexpr std::chrono::milliseconds kTimerResolution{10};
// ... and at least this often, for leases and stuck workers.
constexpr std::chrono::milliseconds kTimerInterval{250};
// The longest that a client may ask the controller to wait; more is cut to this.
constexpr uint64_t kLongestWaitMillis = uint64_t{24} * 3600 * 1000;
// Unread messages of one client. One that behaves waits for a few answers at a time.
constexpr int kMaxUnread = 10'000;
// The largest value that a worker sends has half of that; so may the inventory of a world's
// sessions.
constexpr int64_t kMaxWorkerBytes = int64_t{128} << 20;
// What a rank of the largest world tells all others in one exchange.
constexpr int64_t kMaxLivenessBytes = int64_t{4} << 20;
// A worker that waits for its welcome says hello again about ten times in this time.
constexpr std::chrono::milliseconds kJoiningTimeout{5000};

Status CheckOptions(const ControllerOptions& options) {
  if (options.workers < 1 || options.workers > 4096) {
    return InvalidArgument("a cluster has 1 to 4096 workers, not ", options.workers);
  }
  if (options.worker_timeout <= options.heartbeat_interval) {
    return InvalidArgument("worker_timeout (", options.worker_timeout.count(),
                           " ms) must be longer than heartbeat_interval (",
                           options.heartbeat_interval.count(), " ms)");
  }
  return OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<Controller>> Controller::Start(
    const ControllerOptions& options, const std::shared_ptr<control::ZmqContext>& context) {
  LOCKSTEP_RETURN_IF_ERROR(CheckOptions(options));
  LOCKSTEP_ASSIGN_OR_RETURN(const Gates gates, OpenGates(options));
  const control::ZmqOptions limits{
      .max_message_bytes = static_cast<int64_t>(options.max_batch_bytes),
      .max_unread = kMaxUnread,
      .gate = gates.clients,
      .also_at = options.inproc_client_endpoint};
  LOCKSTEP_ASSIGN_OR_RETURN(auto clients,
                            control::ZmqListen(context, options.client_endpoint, limits));
  LOCKSTEP_ASSIGN_OR_RETURN(auto workers, control::ZmqListen(context, options.worker_endpoint,
                                                             {.max_message_bytes = kMaxWorkerBytes,
                                                              .gate = gates.workers}));
  LOCKSTEP_ASSIGN_OR_RETURN(
      auto liveness,
      control::ZmqListen(context, options.liveness_endpoint,
                         {.max_message_bytes = kMaxLivenessBytes, .gate = gates.workers}));
  return Start(options,
               {std::move(clients), std::move(workers), std::move(liveness), gates.clients});
}

StatusOr<std::unique_ptr<Controller>> Controller::Start(const ControllerOptions& options,
                                                        Channels channels) {
  LOCKSTEP_RETURN_IF_ERROR(CheckOptions(options));
  std::unique_ptr<Controller> controller(new Controller(options, std::move(channels)));
  // Its address is told to whoever asks for the cluster's status: before anybody can.
  LOCKSTEP_RETURN_IF_ERROR(controller->ServeMetrics());
  controller->thread_ = std::thread([self = controller.get()] { self->Run(); });
  return controller;
}

Status Controller::ServeMetrics() {
  if (options_.metrics_endpoint.empty()) return OkStatus();
  metrics::Answers answers;
  answers.metrics = [this] { return metrics_.Text(); };
  answers.started = [] { return OkStatus(); };
  answers.healthy = [this] { return metrics_.Healthy(); };
  answers.ready = [this] { return metrics_.Ready(); };
  answers.idle = [this] { return metrics_.Idle(); };
  LOCKSTEP_ASSIGN_OR_RETURN(metrics_server_, metrics::MetricsServer::Start(
                                                 options_.metrics_endpoint, std::move(answers)));
  log::Info("metrics at ", metrics_server_->endpoint(), "/metrics");
  return OkStatus();
}

Controller::Controller(const ControllerOptions& options, Channels channels)
    : options_(options),
      incarnation_(NewEpoch()),
      epoch_(incarnation_),
      client_endpoint_(control::Advertise(channels.clients->endpoint(), options.advertise_address)),
      worker_endpoint_(control::Advertise(channels.workers->endpoint(), options.advertise_address)),
      liveness_endpoint_(
          control::Advertise(channels.liveness->endpoint(), options.advertise_address)),
      clients_(std::move(channels.clients)),
      workers_(std::move(channels.workers)),
      membership_(options.cluster, options.workers),
      sessions_(options.workers),
      gatherer_([this](const PendingRequest& request) { SendAnswer(request); },
                [this](SessionId session, const std::vector<Rank>& late) {
                  return LateError(session, late);
                }),
      inquiries_([this](const Inquiry& inquiry) {
        if (inquiry.about_registers) return SendRegisters(inquiry);
        SendStatus(inquiry.client, inquiry.request, inquiry.reports);
      }),
      tracing_(options.workers),
      watches_(static_cast<size_t>(options.workers)),
      stuck_(static_cast<size_t>(options.workers)),
      waiting_(static_cast<size_t>(options.workers)),
      client_gate_(std::move(channels.client_gate)),
      metrics_(options) {
  liveness_ = std::make_unique<LivenessMonitor>(
      std::move(channels.liveness), options.workers,
      LivenessMonitor::Options{incarnation_, options.heartbeat_interval,
                               std::max(kJoiningTimeout, options.worker_timeout),
                               options.worker_timeout},
      [this](const LivenessMonitor::Loss& loss) {
        std::lock_guard lock(events_mutex_);
        lost_events_.push_back(loss);
        has_events_ = true;
        wake_up_.Signal();
      },
      [this](const LivenessMonitor::Report& report) {
        std::lock_guard lock(events_mutex_);
        report_events_.push_back(report);
        has_events_ = true;
        wake_up_.Signal();
      },
      [this](Rank rank, wire::Heartbeat::Reader heartbeat) {
        metrics_.skew().Take(rank, heartbeat.getCollectives());
      },
      [this](LivenessMonitor::Fetched fetched) {
        std::lock_guard lock(events_mutex_);
        fetched_events_.push_back(std::move(fetched));
        has_events_ = true;
        wake_up_.Signal();
      });
  reach_back_ = std::make_unique<ReachBack>([this] {
    std::lock_guard lock(events_mutex_);
    reach_results_ = true;
    has_events_ = true;
    wake_up_.Signal();
  });
  log::Info("cluster ", options_.cluster, ": clients at ", client_endpoint_, ", workers at ",
            worker_endpoint_, ", expecting ", options_.workers, " workers");
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

void Controller::Run() {
  control::InputWaiter waiter(options_.poll_before_sleep);
  control::Channel* const channels[] = {clients_.get(), workers_.get()};
  const int descriptors[] = {wake_up_.fd()};
  HandleTimers();
  while (true) {
    // Busy clients must not keep a lost worker or a lease from being noticed.
    if (!ReceiveSome()) waiter.Wait(channels, descriptors, next_timer_);
    if (has_events_ && !HandleEvents()) break;
    if (next_timer_.Expired()) HandleTimers();
  }
  Stop();
}

void Controller::Stop() {
  log::Info("cluster ", options_.cluster, " stops: ", stop_reason_);
  const control::RemoteError cause =
      control::ErrorOf(Unavailable("the cluster was shut down: ", stop_reason_));
  for (auto& [id, session] : sessions_.all()) {
    // Before the answers: whoever is answered knows why already when he calls again.
    SendToClient(session.client, {control::EncodeMessage<wire::ControllerMessage>(
                                     [&](auto message) { message.setShutdown(stop_reason_); })});
    gatherer_.FailAll(id, cause);
    if (session.ending.has_value()) AbortEnding(session, cause);
    liveness_->Abort(id, session.generation, 0, cause);
  }
  for (const PendingOpen& open : pending_opens_) Refuse(open.client, cause.ToStatus());
  SendToClient(tracing_.client(), {control::EncodeMessage<wire::ControllerMessage>(
                                      [&](auto message) { message.setShutdown(stop_reason_); })});
  liveness_->Stop();
  AnswerAwaiting(cause.ToStatus());
  inquiries_.CompleteAll();
  (void)workers_->Send(membership_.PeersAndCandidates(),
                       {control::EncodeMessage<wire::Envelope>([&](wire::Envelope::Builder e) {
                         e.setEpoch(epoch_.value);
                         e.setShutdown(stop_reason_);
                       })});
  // Closing sends what is queued, within the sockets' linger time.
  clients_.reset();
  workers_.reset();
  std::lock_guard lock(stopped_mutex_);
  stopped_ = true;
  stopped_changed_.notify_all();
}

bool Controller::ReceiveSome() {
  control::PeerName peer;
  control::Message message;
  int received = 0;
  for (int i = 0; i < kMessagesPerTurn && workers_->Receive(&peer, &message); ++i, ++received) {
    const Status status = HandleWorker(peer, message);
    if (!status.ok()) dropped_.Warn("a worker's message was dropped: ", Message(status));
  }
  for (int i = 0; i < kMessagesPerTurn && clients_->Receive(&peer, &message); ++i, ++received) {
    const Status status = HandleClient(peer, message);
    if (!status.ok()) {
      dropped_.Warn("a client's message was refused: ", Message(status));
      Refuse(peer, status);
    }
  }
  return received > 0;
}

bool Controller::HandleEvents() {
  std::vector<LivenessMonitor::Report> reports;
  std::vector<LivenessMonitor::Fetched> fetched;
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
  for (const auto& report : reports) inquiries_.Add(report.probe, report.rank, report.frame);
  for (const auto& part : fetched) PassTraceOn(part);
  NoticeLosses();
  if (has_reach_results) ConsiderReached();
  return go_on;
}

Deadline Controller::Timer(uint64_t millis) {
  const Deadline deadline =
      Deadline::After(std::chrono::milliseconds(std::min(millis, kLongestWaitMillis)));
  next_timer_ = next_timer_.Earlier(
      Deadline::At(std::max(deadline.when(), timers_handled_ + kTimerResolution)));
  return deadline;
}

void Controller::HandleTimers() {
  const auto now = Deadline::Clock::now();
  // If this thread could not look (its process was stopped, or the machine was), what others said
  // meanwhile waits to be read: that time is not their silence, and nobody is late before it is
  // read.
  const auto gap = now - std::exchange(timers_handled_, now);
  if (gap > 4 * kTimerInterval) {
    for (auto& [id, session] : sessions_.all()) {
      session.last_heard = std::min(now, session.last_heard + gap);
      session.kept_until = Deadline::At(session.kept_until.when() + gap);
      session.owner_until = Deadline::At(session.owner_until.when() + gap);
    }
    tracing_.Forgive(gap);
    next_timer_ = Deadline::At(now + kTimerInterval);
    return;
  }
  Deadline next = Deadline::At(now + kTimerInterval)
                      .Earlier(gatherer_.Expire(now))
                      .Earlier(inquiries_.Expire(now));
  EndRevokedSessions();
  NoticeStuckWorkers();
  NoticeBrokenConnections();
  const Status whole = membership_.Whole();
  const auto is_late = [&](const auto& who) {
    if (who.deadline.when() <= now) return true;
    next = next.Earlier(who.deadline);
    return false;
  };
  std::erase_if(pending_opens_, [&](const PendingOpen& open) {
    if (!is_late(open)) return false;
    Refuse(open.client, Annotate(whole, "the cluster was not ready in time"));
    return true;
  });
  std::erase_if(awaiting_, [&](const Awaiting& who) {
    if (!is_late(who)) return false;
    Answer(who.client, who.session, who.request, control::ErrorOf(whole));
    return true;
  });
  for (const SessionId id : sessions_.Ids()) {
    SessionEntry& session = *sessions_.Find(id);
    const bool may_end_late = session.ending.has_value() && !session.ending->aborted;
    if (may_end_late && session.ending->deadline.when() > now) {
      next = next.Earlier(session.ending->deadline);
    } else if (may_end_late) {
      AbortLateEnding(session);
    }
    const bool has_client = !session.client.empty();
    // Nobody can come back while the world is not whole.
    const bool is_over = has_client ? now - session.last_heard > options_.session_lease
                                    : session.kept_until.when() <= now && membership_.AllReady();
    if (is_over) {
      HandleSilentClient(session);
    }
  }
  if (tracing_.IsSilent(options_.session_lease, now)) EndTrace();
  if (!options_.metrics_endpoint.empty()) ObserveMetrics();
  next_timer_ = Deadline::At(std::max(next.when(), now + kTimerResolution));
}

}  // namespace lockstep::controller
