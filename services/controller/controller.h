// The controller: admits workers, opens sessions, orders all batches, and gathers answers.
//
// It never decodes the body of a batch, and never waits for anybody.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/control/batch.h"
#include "runtime/control/channel.h"
#include "runtime/control/input_waiter.h"
#include "runtime/control/keys/gate.h"
#include "runtime/control/worker_report.h"
#include "runtime/control/zmq/zmq_context.h"
#include "schemas/control.capnp.h"
#include "schemas/session.capnp.h"
#include "services/controller/backlog.h"
#include "services/controller/gatherer.h"
#include "services/controller/inquiries.h"
#include "services/controller/liveness.h"
#include "services/controller/membership.h"
#include "services/controller/metrics.h"
#include "services/controller/options.h"
#include "services/controller/reach_back.h"
#include "services/controller/session_table.h"
#include "services/controller/tracing.h"
#include "services/metrics/metrics_server.h"

namespace lockstep::controller {

// Threads: the public functions are safe. One thread of the controller's own reads the client and
// worker channels and owns all state below; a second one watches liveness.
class Controller {
 public:
  // Binds the endpoints and starts the threads. kInvalidArgument for bad options; the errors of
  // control::ZmqListen.
  static StatusOr<std::unique_ptr<Controller>> Start(
      const ControllerOptions& options, const std::shared_ptr<control::ZmqContext>& context);
  // The same over channels that listen already.
  struct Channels {
    std::unique_ptr<control::ServerChannel> clients;
    std::unique_ptr<control::ServerChannel> workers;
    std::unique_ptr<control::ServerChannel> liveness;
    // The one of `clients`; null: nobody is asked for a key.
    std::shared_ptr<control::Gate> client_gate = nullptr;
  };
  static StatusOr<std::unique_ptr<Controller>> Start(const ControllerOptions& options,
                                                     Channels channels);
  ~Controller();

  // Where it really listens.
  const std::string& client_endpoint() const { return client_endpoint_; }
  const std::string& worker_endpoint() const { return worker_endpoint_; }
  const std::string& liveness_endpoint() const { return liveness_endpoint_; }
  // Empty: nowhere.
  std::string metrics_endpoint() const {
    return metrics_server_ == nullptr ? "" : metrics_server_->endpoint();
  }

  // Ends the cluster: work in flight is aborted, workers and clients are told why.
  void RequestStop(const std::string& reason);
  // Returns when it has stopped (whoever asked for it); kDeadlineExceeded if it has not by then.
  Status Wait(Deadline deadline);

 private:
  struct PendingOpen {
    control::PeerName client;
    control::Message message;                 // the client's openSession or resumeSession
    std::optional<control::Identity> sender;  // as its key has shown; none: it needs none
    Deadline deadline;
  };

  // A client that waits until all workers are ready.
  struct Awaiting {
    control::PeerName client;
    SessionId session;
    RequestId request;
    Deadline deadline;
  };

  Controller(const ControllerOptions& options, Channels channels);

  Status ServeMetrics();
  void ObserveMetrics();
  void Run();
  bool ReceiveSome();
  // False when it is time to stop.
  bool HandleEvents();
  void Stop();
  void HandleTimers();
  // The deadline that a client asks for; the timers are handled when it has passed.
  Deadline Timer(uint64_t millis);

  // From workers (worker_messages.cc).
  Status HandleWorker(const control::PeerName& peer, const control::Message& message);
  void HandleFailure(Rank rank, wire::Failure::Reader failure);
  void HandleConsumed(Rank rank, wire::Consumed::Reader consumed);
  void SendCredit(SessionEntry& session);

  // What functions print, on its way to the client (output.cc).
  Status HandleOutput(Rank rank, wire::Output::Reader output, const control::Message& message);
  Status HandleOutputTaken(const control::PeerName& client, wire::OutputTaken::Reader taken);
  // Also when no line comes after those that were dropped.
  void TellDropped(SessionEntry& session);
  // `lines`: the worker's frame, or none.
  void TellOutput(SessionEntry& session, Rank rank, const control::Frame& lines);

  // What a lost controller has left behind (resume.cc).
  // Returns the ranks that have come with nothing that counts.
  std::vector<Rank> RestoreSessions();
  void Resume(const PendingOpen& open, wire::ResumeSession::Reader resume);
  Status CheckResume(const control::PeerName& client, wire::ResumeSession::Reader resume);

  // Sessions that outlive their clients (attach.cc).
  Status HandleName(const control::PeerName& client, wire::NameRegister::Reader name);
  Status HandleDetach(const control::PeerName& client, wire::DetachSession::Reader detach);
  Status Attach(const PendingOpen& open, wire::AttachSession::Reader attach);
  // Tells the workers who its client is now. Registers without names are freed.
  void Adopt(SessionEntry& session, const std::string& name, wire::Host::Reader host, int pid);
  // Tells the workers what is known of it.
  void TellClient(const SessionEntry& session);
  // It has this client from now on, who is told how it stands.
  void HandOver(SessionEntry& session, const PendingOpen& open);
  // It has no client for now.
  void Orphan(SessionEntry& session, std::chrono::milliseconds keep_for);
  // The session that the token belongs to, which has no other client. `how`: "resumed", ...
  StatusOr<SessionEntry*> FindByToken(const control::PeerName& client, SessionId id,
                                      const std::string& token, const std::string& how);
  // It fails if the client has sent commands before `next_command` that have not come.
  void NoticeLostBatches(SessionEntry& session, uint64_t next_command);

  // Who is admitted (admission.cc).
  void HandleHello(const control::PeerName& peer, wire::Hello::Reader hello);
  // Gives it a rank, or refuses it, once it is known whether it is reached.
  void Consider(const control::PeerName& peer, const Candidate& candidate);
  // The controller can connect to where the worker says that clients reach it. One that is out of
  // reach is told so; one that is being tried is considered again when that is known.
  bool IsReached(const control::PeerName& peer, const Candidate& candidate);
  void ConsiderReached();
  void TellToWait(const control::PeerName& peer);
  void RefuseWorker(const control::PeerName& peer, const Status& why);
  // Frees the candidate's rank of a worker that waits for it, and has kept less of it: a newcomer,
  // or one that was lost before the candidate had the rank.
  void MakeWayFor(const Candidate& candidate);
  // True while it is not known whether the worker that has the rank lives (of one that takes any
  // rank: whether all do).
  bool MayFollow(const control::PeerName& peer, const Candidate& candidate);
  // True if the candidate is the very worker that has its rank: it lost sight of this controller.
  bool HasTheRank(const Candidate& candidate) const;

  // How the world is put together, and mended (world.cc).
  // All are present: whoever waited is welcome, and all connect under a new epoch.
  void StartWorld();
  // They have nothing of the sessions that are open.
  void NoteNewcomers(const std::vector<Rank>& newcomers);
  control::Frame WelcomeFor(Rank rank, bool forget);
  void WritePeers(capnp::List<wire::Peer>::Builder peers) const;
  // The list is as long as there are ranks whose worker was replaced.
  static void WriteReplaced(capnp::List<wire::Replacement>::Builder list,
                            const SessionEntry& session);
  void HandleReady(Rank rank, wire::Ready::Reader ready);
  void HandleTrouble(Rank rank, wire::Trouble::Reader trouble);
  // Which of its ranks have other workers now.
  void TellReplaced(SessionEntry& session);
  Status HandleAwait(const control::PeerName& client, wire::AwaitWorkers::Reader await);
  void AnswerAwaiting(const Status& status);
  // Those that have not come to this thread as events yet, too.
  void NoticeLosses();
  // `last`: what its worker did.
  void HandleLost(Rank rank, const std::string& reason, const LastHeard& last);
  // Before its welcome: the rank of a worker that has left is free again.
  void FreeRank(Rank rank, const std::string& reason);

  // From clients (client_messages.cc).
  Status HandleClient(const control::PeerName& client, const control::Message& message);
  // kInvalidArgument for a number that only the controller gives to requests.
  static Status CheckRequest(RequestId request);
  // kResourceExhausted for a client that asks and asks, and does not wait for answers.
  Status CheckRoomForRequest(const SessionEntry& session) const;
  Status CheckRoomForReset(const SessionEntry& session, Generation generation) const;
  // What a client says of itself, which is kept, logged and shown for as long as its session lives.
  static std::string ShortName(const std::string& name);
  static Status CheckVersion(uint32_t oldest, uint32_t newest, const std::string& build);
  void OpenWhenReady(const control::PeerName& client, const control::Frame& message,
                     uint64_t timeout_millis);
  void OpenPendingSessions();
  Status OpenSession(const PendingOpen& pending, wire::OpenSession::Reader open);
  void SendOpened(SessionEntry& session);
  Status HandleBatch(const control::PeerName& client, wire::Batch::Reader batch,
                     const control::Message& message);
  void Reject(SessionEntry& session, wire::Batch::Reader batch, const Status& why);
  // OK, or why the batch is not sent on. `cost` is its FlowCost.
  Status Admit(SessionEntry& session, wire::Batch::Reader batch, uint64_t cost);
  Status HandleReset(const control::PeerName& client, wire::ResetSession::Reader reset);
  void Refuse(const control::PeerName& client, const Status& why, bool resume = false);
  void SendFailure(SessionEntry& session);

  // Whose sessions they are (access.cc). None: who needs no key.
  // Of the client's message that was received last.
  std::optional<control::Identity> Sender() const;
  Status CheckStillAllowed(const std::optional<control::Identity>& owner) const;
  Status CheckRoomForKey(const std::optional<control::Identity>& owner) const;
  // It is kept with the session, here and on every worker.
  static Status CheckBulkKey(capnp::Text::Reader key);
  // Those of clients whose keys were taken back.
  void EndRevokedSessions();

  // What it tells of the cluster (status.cc).
  bool IsStuck(const WorkerActivity& activity) const;
  // Says so in the log, once per command, and fails sessions whose command_timeout has passed.
  void NoticeStuckWorkers();
  void FailIfOverdue(Rank rank, const WorkerActivity& activity);
  // Gives up workers that wait for commands and do not get those that were sent.
  void NoticeBrokenConnections();
  // How long a batch may take to a worker that does nothing else.
  std::chrono::milliseconds DeliveryTime() const { return 4 * options_.worker_timeout; }
  // Why ranks have not answered `session`: what they are doing instead.
  control::RemoteError LateError(SessionId session, const std::vector<Rank>& late) const;
  // Asks the workers for reports, then sends the status with them.
  Status Explain(const control::PeerName& client, uint64_t request);
  // `reports` by rank, or none.
  void SendStatus(const control::PeerName& client, uint64_t request,
                  const std::vector<control::Frame>& reports);

  // Timelines (trace_messages.cc).
  void HandleTrace(const control::PeerName& client, wire::TraceRequest::Reader request);
  // Asks a worker; OK: its answer will be passed on.
  Status AskForTrace(uint64_t trace, uint64_t request, wire::FetchTrace::Reader fetch);
  void PassTraceOn(const LivenessMonitor::Fetched& fetched);
  void EndTrace();

  // What registers hold (register_questions.cc).
  Status AskForRegisters(const control::PeerName& client, wire::ListRegisters::Reader question);
  void SendRegisters(const Inquiry& inquiry);

  // The session's work of its generation has failed: everybody learns the first cause.
  // The session's work ends from a command on; 0: all that is in flight.
  void FailSession(SessionEntry& session, const control::RemoteError& cause,
                   uint64_t from_command = 0);

  // The ends of sessions (session_ends.cc). Those that may take a session out of the table say so.
  // The session that a message of `client` is for, which counts (see wire::KeepAlive); FindOpen():
  // and that is not being closed.
  StatusOr<SessionEntry*> FindHeard(SessionId id, const control::PeerName& client);
  StatusOr<SessionEntry*> FindOpen(SessionId id, const control::PeerName& client);
  static Status BeingClosed(SessionId id);
  // It fails, and goes on failing after every reset.
  void BreakSession(SessionEntry& session, const Status& why);
  void HandleClose(const control::PeerName& client, wire::CloseSession::Reader close);
  void HandleSilentClient(SessionEntry& session);  // may take it out
  // Has it closed by all ranks. `request` is answered then, or at the deadline; with `lost` if that
  // is an error.
  void EndSession(SessionEntry& session, std::optional<RequestId> request, Deadline deadline,
                  bool client_lost, const control::RemoteError& lost = {});  // may take it out
  // `rank` has closed it, or is lost.
  void NoteEnded(SessionEntry& session, Rank rank,
                 const control::RemoteError& error);  // may take it out
  void FinishIfEnded(SessionEntry& session);          // may take it out
  // What it still does is aborted on all ranks, and nobody waits for the close any more.
  void AbortEnding(SessionEntry& session, const control::RemoteError& cause);
  void AbortLateEnding(SessionEntry& session);

  // Gives `body` the next place in the total order and sends it to all workers.
  struct Order {
    SessionId session;
    Generation generation;
    uint64_t first_command = 0;
    RequestId request;
    // Of a client's batch, for metrics: how long it was there, and when it came here.
    std::chrono::nanoseconds in_client{0};
    std::optional<Deadline::Clock::time_point> arrived = {};
  };
  void Broadcast(const Order& order, const control::Frame& body);
  void SendToClient(const control::PeerName& client, const control::Message& message);
  // An answer that may be long, and counts as unread until it is gone.
  void SendLong(const control::PeerName& client, const control::Message& message);
  // The same, and counts it.
  void Tell(SessionEntry& session, const control::Message& message);
  Status HandleKeepAlive(const control::PeerName& client, wire::KeepAlive::Reader keep_alive);
  void SendAnswer(const PendingRequest& request);
  void Answer(const control::PeerName& client, SessionId session, RequestId request,
              const control::RemoteError& error);

  const ControllerOptions options_;
  const Deadline::Clock::time_point started_ = Deadline::Clock::now();
  const Epoch incarnation_;  // in which it was started
  Epoch epoch_;              // the world's: that of the last welcome
  std::string client_endpoint_;
  std::string worker_endpoint_;
  std::string liveness_endpoint_;

  // Owned by the controller's thread.
  std::unique_ptr<control::ServerChannel> clients_;
  std::unique_ptr<control::ServerChannel> workers_;
  Membership membership_;
  SessionTable sessions_;
  Gatherer gatherer_;
  Inquiries inquiries_;
  Backlog backlog_;
  Tracing tracing_;
  std::vector<PendingOpen> pending_opens_;
  std::vector<Awaiting> awaiting_;
  std::unordered_map<control::PeerName, Candidate> being_reached_;
  // Who asks for a rank that is taken, and since when.
  std::unordered_map<control::PeerName, Deadline::Clock::time_point> asking_since_;
  std::vector<WatchId> watches_;  // by rank: the watching of its present worker
  std::vector<uint64_t> stuck_;   // by rank: the command, counted from its start, told to be stuck
  uint64_t sequence_ = 0;
  // What every worker has got by now that waits for commands; and at the next look at this.
  uint64_t due_ = 0;
  uint64_t next_due_ = 0;
  Deadline next_due_at_ = Deadline::After({});
  // By rank: looks in a row that found it waiting for the same batch, and how far it was.
  struct Waiting {
    uint64_t received = 0;
    uint64_t launched = 0;
    int looks = 0;
  };
  std::vector<Waiting> waiting_;
  Deadline next_timer_ = Deadline::After({});
  Deadline::Clock::time_point timers_handled_;
  bool welcomed_ = false;

  const std::shared_ptr<control::Gate> client_gate_;
  std::optional<uint64_t> gate_version_;  // that sessions were held against; none: no version yet
  // What others have sent that is no good.
  log::Limit dropped_;

  // What other threads tell the controller's thread.
  control::WakeUp wake_up_;
  std::atomic<bool> has_events_{false};
  std::mutex events_mutex_;
  std::vector<LivenessMonitor::Loss> lost_events_;
  std::vector<LivenessMonitor::Report> report_events_;
  std::vector<LivenessMonitor::Fetched> fetched_events_;
  bool reach_results_ = false;  // there are some
  bool stop_requested_ = false;
  std::string stop_reason_;

  std::mutex stopped_mutex_;
  std::condition_variable stopped_changed_;
  bool stopped_ = false;

  Metrics metrics_;
  std::unique_ptr<metrics::MetricsServer> metrics_server_;
  std::unique_ptr<LivenessMonitor> liveness_;
  std::unique_ptr<ReachBack> reach_back_;
  std::thread thread_;
};

}  // namespace lockstep::controller
