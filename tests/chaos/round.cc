#include "tests/chaos/round.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/client/failure.h"
#include "runtime/client/session.h"
#include "tests/chaos/random_program.h"
#include "tests/integration/cluster.h"
#include "tests/integration/process_watch.h"

namespace lockstep::chaos {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;
using testing::ClusterKind;

constexpr auto kHeartbeat = 100ms;
constexpr auto kWorkerTimeout = 600ms;
// The bound of every wait: nothing that a client calls may take longer, whatever happens.
constexpr auto kBound = 10s;

const char* Name(Fault fault) {
  switch (fault) {
    case Fault::kNone:
      return "no fault";
    case Fault::kThrow:
      return "a function throws";
    case Fault::kDisagree:
      return "a rank disagrees";
    case Fault::kReset:
      return "a client resets";
    case Fault::kKill:
      return "a worker is killed";
    case Fault::kStop:
      return "a worker is stopped";
  }
  return "";
}

template <typename... Parts>
Status Violation(const Parts&... parts) {
  return MakeStatus(StatusCode::kInternal, parts...);
}

// What the descriptors of this process refer to.
std::multiset<std::string> OpenDescriptors() {
  std::multiset<std::string> open;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the one that reads the directory
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    // Sockets and the like have numbers of their own: what counts is how many there are.
    if (!gone) open.insert(target.substr(0, target.find_first_of("[0123456789")));
  }
  return open;
}

Status CheckDescriptors(const std::multiset<std::string>& before) {
  const std::multiset<std::string> after = OpenDescriptors();
  std::string left;
  std::vector<std::string> added;
  std::set_difference(after.begin(), after.end(), before.begin(), before.end(),
                      std::back_inserter(added));
  for (const std::string& name : added) left += " " + name;
  return left.empty() ? OkStatus() : Violation("descriptors of this process are left:", left);
}

// A client: its session, its program, and the thread that runs it.
class Client {
 public:
  static StatusOr<std::unique_ptr<Client>> Start(Cluster& cluster, const std::string& name,
                                                 uint64_t seed) {
    SessionOptions options;
    options.name = name;
    options.connect_timeout = 30s;
    options.timeout = kBound;
    LOCKSTEP_ASSIGN_OR_RETURN(Session session, cluster.Connect(options));
    return std::unique_ptr<Client>(new Client(std::move(session), seed));
  }
  ~Client() {
    if (thread_.joinable()) thread_.join();
  }

  // Runs `work` on a thread of the client's own.
  template <typename Work>
  void Run(Work work) {
    thread_ = std::thread([this, work] { result_ = work(*this); });
  }
  // What the work returned.
  Status Join() {
    thread_.join();
    return result_;
  }

  // Some steps; an error of the session, or of the model, ends them.
  Status TakeSteps(int steps) {
    for (int i = 0; i < steps; ++i) LOCKSTEP_RETURN_IF_ERROR(Timed([&] { return program.Step(); }));
    return OkStatus();
  }
  Status SyncAll() {
    return Timed([&] { return session.SyncAll(); });
  }
  // Calls that take longer than anything may are violations, whatever they return.
  template <typename Call>
  Status Timed(Call call) {
    const auto begin = Deadline::Clock::now();
    const Status status = call();
    const auto took = Deadline::Clock::now() - begin;
    if (took > kBound + 2s) {
      violation = Violation("a call took ", std::chrono::duration<double>(took).count(),
                            " s and returned ", status.ToString());
    }
    return status;
  }

  Session session;
  RandomProgram program;
  Status violation;

 private:
  Client(Session s, uint64_t seed) : session(std::move(s)), program(session, seed) {}

  std::thread thread_;
  Status result_;
};

// The program goes on to its end, and everything that it made is right.
Status RunToTheEnd(Client& client, int steps) {
  LOCKSTEP_RETURN_IF_ERROR(client.TakeSteps(steps));
  LOCKSTEP_RETURN_IF_ERROR(client.SyncAll());
  return client.program.CheckAll();
}

// A session that has failed is usable again, and has all that was made before.
Status Recover(Client& client, uint64_t mark, int steps) {
  client.program.ForgetSince(mark);
  LOCKSTEP_RETURN_IF_ERROR(client.Timed([&] { return client.session.Reset(); }));
  LOCKSTEP_RETURN_IF_ERROR(client.program.CheckAll());
  return RunToTheEnd(client, steps);
}

// The victim's rank throws, while the program goes on for a while.
Status ThrowAndRecover(Client& client, const Plan& plan) {
  LOCKSTEP_RETURN_IF_ERROR(client.TakeSteps(plan.steps));
  const uint64_t mark = client.program.Mark();
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef fail, client.session.GetFunction("lockstep.fail"));
  LOCKSTEP_RETURN_IF_ERROR(client.session.Call(fail, "chaos", plan.victim).status());
  (void)client.TakeSteps(5);
  const Status status = client.SyncAll();
  const auto failure = FailureOf(status);
  if (!failure.has_value() || failure->rank != plan.victim ||
      failure->function != "lockstep.fail" || failure->message.find("chaos") == std::string::npos) {
    return Violation("rank ", plan.victim, " threw, but the client read: ", status.ToString());
  }
  return Recover(client, mark, plan.steps);
}

Status DisagreeAndRecover(Client& client, const Plan& plan) {
  LOCKSTEP_RETURN_IF_ERROR(client.TakeSteps(plan.steps));
  const uint64_t mark = client.program.Mark();
  LOCKSTEP_RETURN_IF_ERROR(client.program.Disagree(plan.victim));
  (void)client.TakeSteps(5);
  const Status status = client.SyncAll();
  if (status.code() != StatusCode::kInvalidArgument ||
      Message(status).find("rank") == std::string::npos) {
    return Violation("rank ", plan.victim, " disagreed, but the client read: ", status.ToString());
  }
  return Recover(client, mark, plan.steps);
}

Status ResetAndGoOn(Client& client, const Plan& plan) {
  LOCKSTEP_RETURN_IF_ERROR(client.TakeSteps(plan.steps));
  LOCKSTEP_RETURN_IF_ERROR(client.SyncAll());
  const uint64_t mark = client.program.Mark();
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef sleep, client.session.GetFunction("lockstep.sleep"));
  LOCKSTEP_RETURN_IF_ERROR(client.session.Call(sleep, 3600.0, plan.victim).status());
  LOCKSTEP_RETURN_IF_ERROR(client.session.Barrier());
  LOCKSTEP_RETURN_IF_ERROR(client.session.Flush());
  return Recover(client, mark, plan.steps);
}

// Works until the loss of a worker ends it, which has to be told by its rank.
Status WorkUntilLost(Client& client, const Plan& plan) {
  Status status;
  const Deadline deadline = Deadline::After(kBound);
  while (status.ok() && !deadline.Expired()) {
    status = client.TakeSteps(1);
    if (status.ok()) status = client.SyncAll();
  }
  const std::string rank = "rank " + std::to_string(plan.victim);
  if (status.code() != StatusCode::kUnavailable ||
      Message(status).find(rank) == std::string::npos) {
    return Violation(rank, " is lost, but the client read: ", status.ToString());
  }
  const Status again = client.SyncAll();
  if (again.ok()) return Violation("a session goes on although ", rank, " is lost");
  return OkStatus();
}

Status RunFault(Client& client, const Plan& plan) {
  switch (plan.fault) {
    case Fault::kThrow:
      return ThrowAndRecover(client, plan);
    case Fault::kDisagree:
      return DisagreeAndRecover(client, plan);
    case Fault::kReset:
      return ResetAndGoOn(client, plan);
    case Fault::kKill:
    case Fault::kStop:
      return WorkUntilLost(client, plan);
    case Fault::kNone:
      break;
  }
  return RunToTheEnd(client, plan.steps);
}

bool HitsAll(Fault fault) { return fault == Fault::kKill || fault == Fault::kStop; }

Status RunClients(Cluster& cluster, const Plan& plan) {
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < plan.sessions; ++i) {
    const std::string name = "chaos " + std::to_string(i);
    LOCKSTEP_ASSIGN_OR_RETURN(
        auto client, Client::Start(cluster, name, plan.seed * 100 + static_cast<uint64_t>(i)));
    clients.push_back(std::move(client));
  }
  for (size_t i = 0; i < clients.size(); ++i) {
    const bool concerned = i == 0 || HitsAll(plan.fault);
    clients[i]->Run([&plan, concerned](Client& client) {
      return concerned ? RunFault(client, plan) : RunToTheEnd(client, 2 * plan.steps);
    });
  }
  if (HitsAll(plan.fault)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(plan.steps));
    const pid_t pid = cluster.worker_pids()[static_cast<size_t>(plan.victim)];
    kill(pid, plan.fault == Fault::kKill ? SIGKILL : SIGSTOP);
  }
  Status status;
  for (size_t i = 0; i < clients.size(); ++i) {
    const Status result = clients[i]->Join();
    const std::string who = "session " + std::to_string(i);
    if (!result.ok()) status.Update(Annotate(result, who));
    if (!clients[i]->violation.ok()) status.Update(Annotate(clients[i]->violation, who));
  }
  return status;
}

// From the start of a cluster to its end.
Status RunCluster(const Plan& plan) {
  testing::ClusterOptions options;
  options.workers = plan.workers;
  options.controller.heartbeat_interval = kHeartbeat;
  options.controller.worker_timeout = kWorkerTimeout;
  options.worker.arena_bytes = size_t{64} << 20;
  LOCKSTEP_ASSIGN_OR_RETURN(
      std::unique_ptr<Cluster> cluster,
      Cluster::Start(plan.processes ? ClusterKind::kTcpProcesses : ClusterKind::kTcpThreads,
                     options));
  std::vector<pid_t> pids = cluster->worker_pids();
  if (plan.processes) pids.push_back(cluster->controller_pid());
  const std::set<std::string> segments = testing::SegmentsOf(plan.processes ? pids[0] : 0);

  Status status = RunClients(*cluster, plan);

  if (plan.fault == Fault::kStop) kill(pids[static_cast<size_t>(plan.victim)], SIGCONT);
  // A cluster that has lost a worker says so when it stops.
  const Status stopped = cluster->Stop();
  if (!HitsAll(plan.fault)) status.Update(stopped);
  cluster.reset();
  if (!testing::AllGone(pids, Deadline::After(kBound)))
    status.Update(Violation("processes are left"));
  if (!testing::NoneExists(segments)) status.Update(Violation("shared memory is left"));
  return status;
}

}  // namespace

std::string Plan::Describe() const {
  std::ostringstream text;
  text << "seed " << seed << ": " << workers << (processes ? " processes" : " threads") << ", "
       << sessions << " sessions, " << steps << " steps, " << Name(fault);
  if (fault != Fault::kNone) text << " (rank " << victim << ")";
  return text.str();
}

Plan PlanOf(uint64_t seed) {
  Random random(seed);
  Plan plan;
  plan.seed = seed;
  plan.workers = static_cast<int>(Between(random, 2, 8));
  plan.sessions = static_cast<int>(Between(random, 1, 3));
  plan.fault = static_cast<Fault>(Between(random, 0, 5));
  plan.processes = HitsAll(plan.fault) || Between(random, 0, 2) == 0;
  plan.victim = static_cast<int>(Between(random, 0, plan.workers - 1));
  plan.steps = static_cast<int>(Between(random, 1, 40));
  return plan;
}

Status RunRound(const Plan& plan) {
  const std::multiset<std::string> descriptors = OpenDescriptors();
  Status status;
  // On a thread of its own: what a thread keeps for itself until its end is nothing left behind.
  std::thread([&] { status = RunCluster(plan); }).join();
  status.Update(CheckDescriptors(descriptors));
  return status;
}

}  // namespace lockstep::chaos
