#include "services/controller/controller.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "runtime/control/message_codec.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "services/controller/epoch.h"

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
  const control::ZmqOptions limits{
      .max_message_bytes = static_cast<int64_t>(options.max_batch_bytes),
      .max_unread = kMaxUnread,
      .also_at = options.inproc_client_endpoint};
  LOCKSTEP_ASSIGN_OR_RETURN(auto clients,
                            control::ZmqListen(context, options.client_endpoint, limits));
  LOCKSTEP_ASSIGN_OR_RETURN(auto workers, control::ZmqListen(context, options.worker_endpoint));
  LOCKSTEP_ASSIGN_OR_RETURN(auto liveness, control::ZmqListen(context, options.liveness_endpoint,
                                                              {.max_message_bytes = 1 << 16}));
  return std::unique_ptr<Controller>(
      new Controller(options, std::move(clients), std::move(workers), std::move(liveness)));
}

Controller::Controller(const ControllerOptions& options,
                       std::unique_ptr<control::ServerChannel> clients,
                       std::unique_ptr<control::ServerChannel> workers,
                       std::unique_ptr<control::ServerChannel> liveness)
    : options_(options),
      incarnation_(NewEpoch()),
      epoch_(incarnation_),
      client_endpoint_(clients->endpoint()),
      worker_endpoint_(workers->endpoint()),
      liveness_endpoint_(liveness->endpoint()),
      clients_(std::move(clients)),
      workers_(std::move(workers)),
      membership_(options.cluster, options.workers),
      sessions_(options.workers),
      gatherer_([this](const PendingRequest& request) { SendAnswer(request); },
                [this](SessionId session, const std::vector<Rank>& late) {
                  return LateError(session, late);
                }),
      inquiries_([this](const Inquiry& inquiry) {
        SendStatus(inquiry.client, inquiry.request, inquiry.reports);
      }),
      watches_(static_cast<size_t>(options.workers)),
      stuck_(static_cast<size_t>(options.workers)),
      waiting_(static_cast<size_t>(options.workers)) {
  liveness_ = std::make_unique<LivenessMonitor>(
      std::move(liveness), options.workers,
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
      });
  spdlog::info("cluster {}: clients at {}, workers at {}, expecting {} workers", options_.cluster,
               client_endpoint_, worker_endpoint_, options_.workers);
  thread_ = std::thread([this] { Run(); });
}

Controller::~Controller() {
  RequestStop("the controller ends");
  thread_.join();
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
  spdlog::info("cluster {}: stopping: {}", options_.cluster, stop_reason_);
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
    if (!status.ok()) spdlog::warn("a worker's message was dropped: {}", Message(status));
  }
  for (int i = 0; i < kMessagesPerTurn && clients_->Receive(&peer, &message); ++i, ++received) {
    const Status status = HandleClient(peer, message);
    if (!status.ok()) {
      spdlog::warn("a client's message was refused: {}", Message(status));
      Refuse(peer, status);
    }
  }
  return received > 0;
}

bool Controller::HandleEvents() {
  std::vector<LivenessMonitor::Report> reports;
  bool go_on = true;
  {
    std::lock_guard lock(events_mutex_);
    wake_up_.Clear();
    has_events_ = false;
    reports.swap(report_events_);
    go_on = !stop_requested_;
  }
  for (const auto& report : reports) inquiries_.Add(report.probe, report.rank, report.frame);
  NoticeLosses();
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
  // If this thread could not look (its process was stopped, or the machine was), what the clients
  // said meanwhile waits to be read: that time is not their silence.
  const auto gap = now - std::exchange(timers_handled_, now);
  if (gap > 4 * kTimerInterval) {
    for (auto& [id, session] : sessions_.all()) {
      session.last_heard = std::min(now, session.last_heard + gap);
      session.kept_until = Deadline::At(session.kept_until.when() + gap);
    }
  }
  Deadline next = Deadline::At(now + kTimerInterval)
                      .Earlier(gatherer_.Expire(now))
                      .Earlier(inquiries_.Expire(now));
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
  next_timer_ = Deadline::At(std::max(next.when(), now + kTimerResolution));
}

void Controller::FailSession(SessionEntry& session, const control::RemoteError& cause,
                             uint64_t from_command) {
  if (!session.failure.ok()) {
    // The first cause wins. But a worker that was behind may have failed at an earlier command.
    if (from_command >= session.failed_from) return;
    session.failed_from = from_command;
    liveness_->Abort(session.id, session.generation, from_command, session.failure);
    return;
  }
  session.failure = cause;
  session.failed_from = from_command;
  session.failure.session = session.id;
  spdlog::warn("session {} failed: {}", session.id.value, Message(cause.ToStatus()));
  liveness_->Abort(session.id, session.generation, from_command, session.failure);
  SendFailure(session);
  gatherer_.FailAll(session.id, session.failure);
}

void Controller::SendFailure(SessionEntry& session) {
  Tell(session, {control::EncodeMessage<wire::ControllerMessage>([&](auto message) {
         auto failed = message.initSessionFailed();
         failed.setSession(session.id.value);
         failed.setGeneration(session.generation.value);
         control::WriteError(failed.initError(), session.failure);
       })});
}

void Controller::Broadcast(const Order& order, const control::Frame& body) {
  const control::Frame envelope =
      control::EncodeMessage<wire::Envelope>([&](wire::Envelope::Builder e) {
        e.setEpoch(epoch_.value);
        e.setSequence(++sequence_);
        e.setSession(order.session.value);
        e.setGeneration(order.generation.value);
        e.setFirstCommand(order.first_command);
        e.setRequest(order.request.value);
        e.setBatch();
      });
  const Status status = workers_->Send(membership_.peers(), {envelope, body});
  if (!status.ok()) spdlog::error("batch {} was not sent: {}", sequence_, Message(status));
}

void Controller::SendToClient(const control::PeerName& client, const control::Message& message) {
  if (client.empty()) return;  // a session's that has none for now
  const Status status = clients_->Send({&client, 1}, message);
  if (!status.ok()) spdlog::warn("a client cannot be answered: {}", Message(status));
}

void Controller::Tell(SessionEntry& session, const control::Message& message) {
  ++session.told_messages;
  SendToClient(session.client, message);
}

void Controller::Answer(const control::PeerName& client, SessionId session, RequestId request,
                        const control::RemoteError& error) {
  PendingRequest answer;
  answer.client = client;
  answer.session = session;
  answer.request = request;
  answer.error = error;
  SendAnswer(answer);
}

void Controller::SendAnswer(const PendingRequest& request) {
  control::Message message = {control::EncodeMessage<wire::ControllerMessage>([&](auto m) {
    auto answer = m.initAnswer();
    answer.setSession(request.session.value);
    answer.setRequest(request.request.value);
    if (!request.error.ok()) control::WriteError(answer.initError(), request.error);
  })};
  if (request.error.ok() && request.body.size() > 0) message.push_back(request.body);
  SessionEntry* const session = sessions_.Find(request.session);
  if (session != nullptr && session->client == request.client) return Tell(*session, message);
  SendToClient(request.client, message);
}

void Controller::Refuse(const control::PeerName& client, const Status& why, bool resume) {
  SendToClient(client, {control::EncodeMessage<wire::ControllerMessage>([&](auto message) {
                 auto refused = message.initRefused();
                 control::WriteError(refused.initError(), control::ErrorOf(why));
                 refused.setController(incarnation_.value);
                 refused.setResume(resume);
               })});
}

}  // namespace lockstep::controller
