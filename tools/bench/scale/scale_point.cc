#include "tools/bench/scale/scale_point.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/child_process.h"
#include "runtime/base/deadline.h"
#include "runtime/client/admin.h"
#include "runtime/client/controller_query.h"
#include "runtime/client/session.h"
#include "runtime/control/message_codec.h"
#include "schemas/session.capnp.h"
#include "services/config/endpoint.h"
#include "services/controller/settings.h"
#include "services/local/service_process.h"
#include "tools/bench/program.h"
#include "tools/bench/scale/simulated_workers.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

// For whatever is waited for; nothing takes as long as this that works.
constexpr std::chrono::seconds kPatience{60};
constexpr char kCluster[] = "scale";
constexpr double kMb = 1e6;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The most resident memory that the process has had.
StatusOr<double> PeakBytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string label; file >> label;) {
    double kib = 0;
    if (label == "VmHWM:" && file >> kib) return kib * 1024;
    std::getline(file, label);
  }
  return NotFound("process ", pid, " does not run");
}

// A controller, its workers, and a session.
class ScaleBed {
 public:
  static StatusOr<std::unique_ptr<ScaleBed>> Make(const ScaleOptions& options, ScalePoint& point) {
    std::unique_ptr<ScaleBed> bed(new ScaleBed(options));
    LOCKSTEP_RETURN_IF_ERROR(bed->Start(point));
    return bed;
  }
  ~ScaleBed() {
    // The session ends while there are workers that close it.
    if (session_.has_value()) (void)session_->Close();
    session_.reset();
    if (controller_.has_value()) {
      (void)controller_->child().Terminate(Deadline::After(std::chrono::seconds(5)));
    }
  }

  Status MeasureIdleness(ScalePoint& point);
  Status MeasureBroadcasts(ScalePoint& point);
  Status MeasureSyncs(ScalePoint& point);
  Status MeasureSessions(ScalePoint& point);
  Status MeasureAnswers(ScalePoint& point);
  Status MeasureLoss(ScalePoint& point);
  Status MeasurePeak(ScalePoint& point) {
    LOCKSTEP_ASSIGN_OR_RETURN(const double bytes, PeakBytes(controller_->pid()));
    point.peak_mb = bytes / kMb;
    return workers_->Check();
  }

 private:
  explicit ScaleBed(const ScaleOptions& options) : options_(options) {}

  Status Start(ScalePoint& point);
  // Every worker below a relay gets its commands from there.
  Status AwaitTree();
  StatusOr<Session> Connect() const {
    SessionOptions options;
    options.endpoint = client_endpoint_;
    options.name = "scale";
    options.connect_timeout = kPatience;
    return Session::Connect(options);
  }
  // Processor seconds of the controller so far.
  StatusOr<double> Cpu() const {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto time, CpuTime(controller_->pid()));
    return time.count();
  }
  // What one of many costs the controller, without what it spends anyhow; in microseconds.
  double PerOne(double cpu_seconds, double wall_seconds, uint64_t count) const {
    const double idle = idle_share_ * wall_seconds;
    return std::max(0.0, cpu_seconds - idle) * 1e6 / static_cast<double>(count);
  }

  const ScaleOptions options_;
  std::string client_endpoint_;
  std::optional<local::ServiceProcess> controller_;
  std::unique_ptr<SimulatedWorkers> workers_;
  std::optional<Session> session_;
  double idle_share_ = 0;  // of a core
};

Status ScaleBed::Start(ScalePoint& point) {
  std::string program = options_.controller;
  if (program.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        program, FindProgram("lockstep-controller", "LOCKSTEP_CONTROLLER", "services/controller"));
  }
  controller::ControllerOptions controller;
  controller.cluster = kCluster;
  controller.workers = options_.workers;
  LOCKSTEP_ASSIGN_OR_RETURN(controller.client_endpoint,
                            config::IpcEndpoint(options_.directory + "/client"));
  LOCKSTEP_ASSIGN_OR_RETURN(controller.worker_endpoint,
                            config::IpcEndpoint(options_.directory + "/worker"));
  LOCKSTEP_ASSIGN_OR_RETURN(controller.liveness_endpoint,
                            config::IpcEndpoint(options_.directory + "/liveness"));
  if (options_.relay_fan_out > 0) {
    // All are on this host, where memory would be shared.
    controller.command_rings = "off";
    controller.relays_from = 1;
    controller.relay_fan_out = options_.relay_fan_out;
  }
  client_endpoint_ = controller.client_endpoint;
  LOCKSTEP_ASSIGN_OR_RETURN(
      controller_, local::ServiceProcess::Start({.role = "controller",
                                                 .program = program,
                                                 .directory = options_.directory,
                                                 .settings = controller::ToYaml(controller),
                                                 .arguments = {}}));
  const Deadline deadline = Deadline::After(kPatience);
  while (!GetClusterStatus(ControllerAddress(client_endpoint_), std::chrono::seconds(1)).ok()) {
    LOCKSTEP_RETURN_IF_ERROR(controller_->CheckRunning());
    if (deadline.Expired()) return DeadlineExceeded("the controller does not answer");
  }
  // In any order; the same one each time.
  std::vector<Rank> ranks(static_cast<size_t>(options_.workers));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::mt19937 random(1);  // NOLINT(bugprone-random-generator-seed): so that runs are alike
  std::shuffle(ranks.begin(), ranks.end(), random);
  LOCKSTEP_ASSIGN_OR_RETURN(const double before, Cpu());
  const auto begin = Clock::now();
  LOCKSTEP_ASSIGN_OR_RETURN(
      workers_, SimulatedWorkers::Start(kCluster, controller.worker_endpoint, ranks,
                                        options_.relay_fan_out > 0 ? options_.directory : ""));
  StatusOr<Session> session = Connect();
  if (!session.ok()) {
    // A worker that was refused is the cause; that the cluster is not ready is its effect.
    LOCKSTEP_RETURN_IF_ERROR(workers_->Check());
    return session.status();
  }
  session_ = *std::move(session);
  point.join_seconds = SecondsSince(begin);
  LOCKSTEP_ASSIGN_OR_RETURN(const double after, Cpu());
  point.join_cpu_ms = (after - before) * 1e3;
  LOCKSTEP_ASSIGN_OR_RETURN(const size_t resident, ResidentBytes(controller_->pid()));
  point.memory_mb = static_cast<double>(resident) / kMb;
  return AwaitTree();
}

Status ScaleBed::AwaitTree() {
  const Deadline deadline = Deadline::After(kPatience);
  const int below = options_.relay_fan_out > 0 ? options_.workers - options_.relay_fan_out : 0;
  while (true) {
    LOCKSTEP_RETURN_IF_ERROR(session_->SyncAll());
    LOCKSTEP_ASSIGN_OR_RETURN(const ClusterStatus status,
                              GetClusterStatus(ControllerAddress(client_endpoint_), kPatience));
    const auto by_relay = std::count_if(status.workers.begin(), status.workers.end(),
                                        [](const WorkerStatus& worker) { return worker.by_relay; });
    if (by_relay >= below) return OkStatus();
    LOCKSTEP_RETURN_IF_ERROR(workers_->Check());
    if (deadline.Expired()) {
      return DeadlineExceeded(by_relay, " of ", below, " workers get commands from relays");
    }
  }
}

Status ScaleBed::MeasureIdleness(ScalePoint& point) {
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const auto begin = Clock::now();
  LOCKSTEP_ASSIGN_OR_RETURN(const double before, Cpu());
  std::this_thread::sleep_for(std::chrono::duration<double>(options_.seconds));
  LOCKSTEP_ASSIGN_OR_RETURN(const double after, Cpu());
  idle_share_ = (after - before) / SecondsSince(begin);
  point.idle_percent = idle_share_ * 100;
  return OkStatus();
}

Status ScaleBed::MeasureBroadcasts(ScalePoint& point) {
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef nop, session_->GetFunction("lockstep.nop"));
  LOCKSTEP_RETURN_IF_ERROR(session_->SyncAll());
  const uint64_t taken = workers_->CountCalls();
  // A few under way at a time, as a program has that reads a result now and then.
  constexpr uint64_t kUnderWay = 16;
  uint64_t calls = 0;
  uint64_t syncs = 0;
  const auto begin = Clock::now();
  LOCKSTEP_ASSIGN_OR_RETURN(const double before, Cpu());
  do {
    for (uint64_t i = 0; i < kUnderWay; ++i, ++calls) {
      LOCKSTEP_RETURN_IF_ERROR(session_->Call(nop).status());
      LOCKSTEP_RETURN_IF_ERROR(session_->Flush());
    }
    LOCKSTEP_RETURN_IF_ERROR(session_->SyncAll());
    ++syncs;
  } while (SecondsSince(begin) < options_.seconds);
  LOCKSTEP_ASSIGN_OR_RETURN(const double after, Cpu());
  // What the syncs between have cost is known.
  const double all = PerOne(after - before, SecondsSince(begin), calls);
  point.broadcast_us = std::max(0.0, all - point.sync_us / static_cast<double>(kUnderWay));
  if (workers_->CountCalls() - taken != calls * static_cast<uint64_t>(options_.workers)) {
    return Internal("the workers have taken ", workers_->CountCalls() - taken, " calls, not ",
                    options_.workers, " times ", calls);
  }
  return OkStatus();
}

Status ScaleBed::MeasureSyncs(ScalePoint& point) {
  uint64_t syncs = 0;
  const auto begin = Clock::now();
  LOCKSTEP_ASSIGN_OR_RETURN(const double before, Cpu());
  do {
    LOCKSTEP_RETURN_IF_ERROR(session_->SyncAll());
    ++syncs;
  } while (SecondsSince(begin) < options_.seconds);
  const double seconds = SecondsSince(begin);
  LOCKSTEP_ASSIGN_OR_RETURN(const double after, Cpu());
  point.sync_us = PerOne(after - before, seconds, syncs);
  point.sync_wall_us = seconds * 1e6 / static_cast<double>(syncs);
  return OkStatus();
}

Status ScaleBed::MeasureSessions(ScalePoint& point) {
  // ZeroMQ's queues have a room of 32 KiB for each peer and direction, which is written to from one
  // end to the other before it is used again: as many messages without sessions come first, and
  // what these take does not count.
  std::vector<Session> sessions;
  LOCKSTEP_ASSIGN_OR_RETURN(const size_t at_first, ResidentBytes(controller_->pid()));
  for (int i = 0; i < 2 * options_.sessions; ++i) LOCKSTEP_RETURN_IF_ERROR(session_->SyncAll());
  LOCKSTEP_ASSIGN_OR_RETURN(const size_t before, ResidentBytes(controller_->pid()));
  for (int i = 0; i < options_.sessions; ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(Session session, Connect());
    LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
    sessions.push_back(std::move(session));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const size_t after, ResidentBytes(controller_->pid()));
  const double of_queues = static_cast<double>(before) - static_cast<double>(at_first);
  const double of_all = static_cast<double>(after) - static_cast<double>(before);
  point.session_kb = std::max(0.0, of_all - of_queues) / 1e3 / options_.sessions;
  for (Session& session : sessions) LOCKSTEP_RETURN_IF_ERROR(session.Close());
  return OkStatus();
}

Status ScaleBed::MeasureAnswers(ScalePoint& point) {
  const control::Frame question = control::EncodeMessage<wire::ClientMessage>(
      [](wire::ClientMessage::Builder message) { message.setStatus(1); });
  const ControllerAddress controller(client_endpoint_);
  LOCKSTEP_ASSIGN_OR_RETURN(const control::Message answer,
                            client::AskOnce(controller, question, kPatience));
  size_t bytes = 0;
  for (const control::Frame& frame : answer) bytes += frame.size();
  point.status_kb = static_cast<double>(bytes) / 1e3;
  const auto begin = Clock::now();
  LOCKSTEP_ASSIGN_OR_RETURN(const ClusterStatus status, ExplainCluster(controller, kPatience));
  point.why_ms = SecondsSince(begin) * 1e3;
  const auto reported = std::count_if(status.workers.begin(), status.workers.end(),
                                      [](const WorkerStatus& worker) { return worker.reported; });
  if (reported == options_.workers) return OkStatus();
  return Internal("`lockstep why` hears ", reported, " of ", options_.workers, " workers");
}

Status ScaleBed::MeasureLoss(ScalePoint& point) {
  // In a tree, one that passes commands on.
  const Rank victim = options_.relay_fan_out > 0 ? 1 : options_.workers / 2;
  LOCKSTEP_ASSIGN_OR_RETURN(Session closed, Connect());
  LOCKSTEP_RETURN_IF_ERROR(closed.SyncAll());
  auto begin = Clock::now();
  workers_->Silence(victim);
  Status lost;
  const Deadline deadline = Deadline::After(kPatience);
  while (lost.ok() && !deadline.Expired()) lost = session_->SyncAll();
  point.notice_seconds = SecondsSince(begin);
  if (lost.code() != StatusCode::kUnavailable) {
    return Internal("the client read another error than it should: ", lost.ToString());
  }
  begin = Clock::now();
  (void)closed.Close();  // it is closed on all others, and the error tells of the one that is lost
  point.close_ms = SecondsSince(begin) * 1e3;
  LOCKSTEP_ASSIGN_OR_RETURN(const double before, Cpu());
  begin = Clock::now();
  workers_->Replace(victim);
  LOCKSTEP_RETURN_IF_ERROR(session_->AwaitWorkers(kPatience));
  LOCKSTEP_RETURN_IF_ERROR(session_->Reset());
  LOCKSTEP_RETURN_IF_ERROR(session_->SyncAll());
  point.mend_ms = SecondsSince(begin) * 1e3;
  LOCKSTEP_ASSIGN_OR_RETURN(const double after, Cpu());
  point.mend_cpu_ms = (after - before) * 1e3;
  return OkStatus();
}

}  // namespace

StatusOr<ScalePoint> MeasureScalePoint(const ScaleOptions& options) {
  ScalePoint point;
  point.workers = options.workers;
  LOCKSTEP_ASSIGN_OR_RETURN(const auto bed, ScaleBed::Make(options, point));
  LOCKSTEP_RETURN_IF_ERROR(bed->MeasureIdleness(point));
  LOCKSTEP_RETURN_IF_ERROR(bed->MeasureSyncs(point));
  LOCKSTEP_RETURN_IF_ERROR(bed->MeasureBroadcasts(point));
  LOCKSTEP_RETURN_IF_ERROR(bed->MeasureSessions(point));
  LOCKSTEP_RETURN_IF_ERROR(bed->MeasureAnswers(point));
  LOCKSTEP_RETURN_IF_ERROR(bed->MeasureLoss(point));
  LOCKSTEP_RETURN_IF_ERROR(bed->MeasurePeak(point));
  return point;
}

}  // namespace lockstep::bench
