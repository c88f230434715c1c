#include "services/worker/backends.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/device.h"
#include "runtime/base/host_identity.h"
#include "runtime/base/log.h"
#include "runtime/collective/call.h"
#include "runtime/collective/gloo/gloo.h"
#include "runtime/collective/message/connecting.h"
#include "runtime/collective/message/message_communicator.h"
#include "runtime/collective/mpi/mpi.h"
#include "runtime/collective/nccl/nccl.h"
#include "runtime/collective/nccl/nccl_device.h"
#include "runtime/collective/shm/shm.h"
#include "runtime/collective/tcp/tcp.h"
#include "runtime/collective/two_level/two_level_communicator.h"
#include "runtime/control/local_address.h"
#include "services/worker/join/topology.h"

namespace lockstep::worker {
namespace {

using collective::Mix;
using Connected = StatusOr<std::unique_ptr<collective::Communicator>>;

constexpr char kAuto[] = "auto";
constexpr char kShm[] = "shm";
constexpr char kTcp[] = "tcp";
constexpr char kGloo[] = "gloo";
constexpr char kMpi[] = "mpi";
// Of data_encryption and data_plaintext.
constexpr char kOn[] = "on";
constexpr char kOff[] = "off";
constexpr char kNetwork[] = "network";
// Behind why a backend was chosen.
constexpr char kEncrypted[] = "; tcp is encrypted";
// Ranks of a node by shared memory, and the nodes by what follows.
constexpr std::string_view kShmAnd = "shm+";
// Name the exchanges between the steps of connecting, apart from others' keys.
constexpr uint64_t kPrepared = 0x7072657061726564;
constexpr uint64_t kNodesJoined = 0x6e6f646573;
constexpr uint64_t kConnected = 0x636f6e6e656374;
constexpr uint64_t kGpus = 0x67707573;
constexpr uint64_t kGpusConnected = 0x67707573636f6e;
// A try takes no longer, from when all ranks were prepared; MPI takes its own time to start.
constexpr std::chrono::seconds kLongestTry{10};
constexpr std::chrono::seconds kLongestTryOfMpi{120};
// NCCL looks at every link of every host first.
constexpr std::chrono::seconds kLongestTryOfNccl{120};
// Gloo's thread needs a processor, too.
constexpr std::chrono::microseconds kYieldBesideTcp{200};
constexpr std::chrono::microseconds kYieldBesideOthers{20};
// Ranks that did not reach each other try again after this.
constexpr std::chrono::milliseconds kConnectRetryPause{500};
// For the other processes of an MPI job to end as well: less than a service has to stop in order.
constexpr std::chrono::seconds kLeavingTime{3};

struct Attempt {
  const Membership& membership;
  const WorldOptions& options;
  uint64_t number;  // of trying
  const std::atomic<bool>& cancelled;
  Deadline deadline;
  bool is_one_node;  // all ranks share memory
  std::string data_address = {};

  // Of this world, this time.
  uint64_t key() const { return Mix(membership.epoch.value, number); }
};

// `backend`: of the network beside it.
Connected ConnectShm(const Attempt& attempt, const std::vector<Rank>& members,
                     const std::string& backend) {
  collective::shm::Options options;
  options.rank = attempt.membership.rank;
  options.arena = attempt.options.arena;
  options.arena_names = attempt.membership.segments;
  options.members = members;
  options.world = attempt.key();
  // Workers make their arenas before they ask to join.
  options.arenas_exist = true;
  // Who waits while others cross the network waits long, and their processors are needed.
  if (static_cast<int>(members.size()) < attempt.membership.world_size()) {
    options.wait.yield_for = backend == kTcp ? kYieldBesideTcp : kYieldBesideOthers;
  }
  return collective::shm::Connect(options, attempt.deadline, &attempt.cancelled);
}

collective::tcp::Protection ProtectionOf(const WorldOptions& options) {
  using collective::tcp::Plaintext;
  Plaintext plaintext = Plaintext::kOnLoopback;
  if (options.data_plaintext == kNetwork) plaintext = Plaintext::kAnywhere;
  if (options.data_encryption == kOn) plaintext = Plaintext::kNowhere;
  // Who need not encrypt may have no library for it, and says so to those who want to.
  const bool can_encrypt = options.data_encryption != kOff && (plaintext != Plaintext::kAnywhere ||
                                                               collective::tcp::CanEncrypt().ok());
  return {plaintext, can_encrypt};
}

// What this rank sends to others by tcp goes encrypted, whatever they want.
bool IsEncrypted(const Attempt& attempt) {
  using collective::tcp::Plaintext;
  const Plaintext plaintext = ProtectionOf(attempt.options).plaintext;
  return plaintext == Plaintext::kNowhere ||
         (plaintext == Plaintext::kOnLoopback && !control::IsLoopbackAddress(attempt.data_address));
}

collective::message::NetworkOptions NetworkOptions(const Attempt& attempt) {
  collective::message::NetworkOptions options;
  options.rank = attempt.membership.rank;
  options.size = attempt.membership.world_size();
  options.world = attempt.key();
  options.rendezvous = attempt.options.rendezvous;
  options.address = attempt.data_address;
  return options;
}

StatusOr<std::unique_ptr<collective::message::MessageCommunicator>> ConnectNetwork(
    const Attempt& attempt, const std::string& backend) {
  if (backend == kMpi) {
    const collective::mpi::Options options{attempt.membership.rank, attempt.membership.world_size(),
                                           attempt.key(), attempt.options.rendezvous};
    return collective::mpi::Connect(options, attempt.deadline, &attempt.cancelled);
  }
  if (backend == kGloo) {
    return collective::gloo::Connect(NetworkOptions(attempt), attempt.deadline, &attempt.cancelled);
  }
  return collective::tcp::Connect(NetworkOptions(attempt), ProtectionOf(attempt.options),
                                  attempt.deadline, &attempt.cancelled);
}

// All ranks tell each other how `what` went. OK if it went well everywhere.
Status ShareOutcome(const Attempt& attempt, uint64_t what, const Status& mine) {
  std::vector<Rank> all(attempt.membership.segments.size());
  std::iota(all.begin(), all.end(), 0);
  LOCKSTEP_ASSIGN_OR_RETURN(
      const auto failed,
      collective::ShareOutcome(*attempt.options.rendezvous, Mix(attempt.key(), what), all, mine,
                               &attempt.cancelled, attempt.deadline));
  if (!mine.ok() || !failed.has_value()) return mine;
  return Unavailable("rank ", failed->rank, " is not connected: ", failed->why);
}

// Ranks that share memory by that, and the nodes with each other by the network's backend.
Connected ConnectNodes(const Attempt& attempt, const Topology& topology,
                       const std::string& backend) {
  const std::vector<Rank>& own = topology.NodeOf(attempt.membership.rank);
  Connected node = std::unique_ptr<collective::Communicator>();
  if (own.size() > 1) node = ConnectShm(attempt, own, backend);
  LOCKSTEP_RETURN_IF_ERROR(ShareOutcome(attempt, kNodesJoined, node.status()));
  LOCKSTEP_ASSIGN_OR_RETURN(auto network, ConnectNetwork(attempt, backend));
  return collective::two_level::Combine(topology.nodes, *std::move(node), std::move(network));
}

// What one rank can find out by itself. Fills in the attempt.
Status Prepare(Attempt& attempt, const std::string& backend) {
  if (attempt.options.gpu != nullptr) {
    LOCKSTEP_RETURN_IF_ERROR(collective::nccl::Available(attempt.options.nccl_library));
  }
  const bool wants_encryption =
      attempt.options.data_encryption == kOn && attempt.options.data_plaintext != kNetwork;
  if (backend == kMpi && wants_encryption && !attempt.is_one_node) {
    return PermissionDenied(
        "data_encryption is on, and MPI does not encrypt what it sends from host to host; let the "
        "controller choose tcp (communicator: auto), or, in a network that only the cluster uses, "
        "set data_plaintext: network");
  }
  if (backend != kTcp && backend != kGloo) return OkStatus();
  LOCKSTEP_RETURN_IF_ERROR(collective::message::TcpAvailable());
  LOCKSTEP_ASSIGN_OR_RETURN(attempt.data_address,
                            attempt.options.data_address(backend, backend == kTcp));
  if (attempt.options.with_gpus && attempt.options.data_plaintext != kNetwork &&
      !attempt.is_one_node && !control::IsLoopbackAddress(attempt.data_address)) {
    return PermissionDenied(
        "NCCL does not encrypt what GPUs of several hosts exchange; in a network that only the "
        "cluster uses, set data_plaintext: network (and data_encryption: on, which encrypts all "
        "else)");
  }
  return backend == kTcp && IsEncrypted(attempt) ? collective::tcp::CanEncrypt() : OkStatus();
}

// True for a network's backend that the operator wants for all ranks, also those that share memory.
bool IsForAll(const std::string& wanted) {
  return wanted == kTcp || wanted == kGloo || wanted == kMpi;
}

// Which backend connects the ranks of this topology, if the operator wants `wanted`. Whether a rank
// can be connected by MPI, all others have to be told.
StatusOr<std::string> Choose(const std::string& wanted, const Topology& topology) {
  if (IsForAll(wanted)) return wanted;
  const bool is_combined = wanted.rfind(kShmAnd, 0) == 0;
  const std::string across = is_combined ? wanted.substr(kShmAnd.size()) : std::string(kTcp);
  if ((wanted != kAuto && wanted != kShm && !is_combined) || !IsForAll(across)) {
    return FailedPrecondition("no backend is called \"", wanted, "\"");
  }
  if (topology.nodes.size() == 1) return std::string(kShm);
  if (wanted == kShm) {
    return FailedPrecondition(
        "the ranks cannot be connected by shm, which the controller is set "
        "to: ",
        topology.why_apart, "; set communicator to auto");
  }
  return across;
}

Topology AllAlone(int size) {
  Topology topology;
  for (Rank rank = 0; rank < size; ++rank) topology.nodes.push_back({rank});
  return topology;
}

std::string Explain(const std::string& wanted, const Topology& topology) {
  const std::string set = "the controller is set to " + wanted;
  const std::string found =
      topology.nodes.size() == 1 ? "all ranks map each other's memory" : topology.why_apart;
  if (wanted == kAuto) return found;
  return wanted.rfind(kShmAnd, 0) == 0 ? set + ", and " + found : set;
}

// One try, which ends in the same way on all ranks. After each step that may fail on one, all meet:
// no rank waits in the next one for a rank that will not come.
Connected TryToConnect(Attempt& attempt, const Topology& topology, const std::string& backend) {
  LOCKSTEP_RETURN_IF_ERROR(ShareOutcome(attempt, kPrepared, Prepare(attempt, backend)));
  Attempt bounded = attempt;
  bounded.deadline =
      attempt.deadline.Earlier(Deadline::After(backend == kMpi ? kLongestTryOfMpi : kLongestTry));
  Connected communicator = backend == kShm ? ConnectShm(bounded, topology.nodes.front(), backend)
                                           : ConnectNodes(bounded, topology, backend);
  LOCKSTEP_RETURN_IF_ERROR(ShareOutcome(attempt, kConnected, communicator.status()));
  return communicator;
}

// The same for the GPUs of the ranks, whose CPUs are connected by `cpus`.
StatusOr<std::unique_ptr<collective::DeviceWorld>> ConnectGpus(const Attempt& attempt,
                                                               collective::Communicator& cpus) {
  collective::nccl::Options options;
  if (attempt.options.gpu != nullptr) collective::nccl::UseDevice(*attempt.options.gpu, &options);
  options.machine = ThisHost().machine;
  options.host = &cpus;
  options.rendezvous = attempt.options.rendezvous;
  options.key = Mix(attempt.key(), kGpus);
  options.library = attempt.options.nccl_library;
  auto world = collective::nccl::Connect(
      options, attempt.deadline.Earlier(Deadline::After(kLongestTryOfNccl)), &attempt.cancelled);
  LOCKSTEP_RETURN_IF_ERROR(ShareOutcome(attempt, kGpusConnected, world.status()));
  return world;
}

// True for what may be otherwise the next time.
bool MayPass(const Status& status) {
  return status.code() == StatusCode::kUnavailable ||
         status.code() == StatusCode::kDeadlineExceeded ||
         status.code() == StatusCode::kResourceExhausted;
}

bool PauseOrCancelled(const std::atomic<bool>& cancelled) {
  const Deadline until = Deadline::After(kConnectRetryPause);
  while (!cancelled && !until.Expired()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return cancelled;
}

}  // namespace

Status AnyBackendAvailable() {
  const Status shm = collective::shm::Available();
  const Status tcp = collective::message::TcpAvailable();
  if (shm.ok() || tcp.ok()) return OkStatus();
  return Unavailable("no backend can connect the ranks; shm: ", Message(shm),
                     "; tcp: ", Message(tcp));
}

StatusOr<ConnectedWorld> ConnectWorld(const Membership& membership, const WorldOptions& options,
                                      const std::atomic<bool>& cancelled, Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::vector<MappedRanks> mapped,
      ExchangeMappedRanks(membership.segments, *options.rendezvous, cancelled, deadline));
  Topology topology = DrawTopology(mapped);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string backend, Choose(membership.communicator, topology));
  const std::string why = Explain(membership.communicator, topology);
  const bool is_one_node = topology.nodes.size() == 1;
  // Chosen by the operator: then ranks that share memory do without it.
  if (IsForAll(membership.communicator)) topology = AllAlone(membership.world_size());
  for (uint64_t number = 0;; ++number) {
    Attempt attempt{membership, options, number, cancelled, deadline, is_one_node};
    Connected communicator = TryToConnect(attempt, topology, backend);
    Status status = communicator.status();
    if (status.ok()) {
      const bool is_encrypted = backend == kTcp && IsEncrypted(attempt);
      ConnectedWorld world{*std::move(communicator), nullptr,
                           why + (is_encrypted ? kEncrypted : ""), topology.ByRank()};
      if (!options.with_gpus) return world;
      auto gpus = ConnectGpus(attempt, *world.communicator);
      status = gpus.status();
      if (status.ok()) {
        world.gpus = *std::move(gpus);
        return world;
      }
    }
    if (!MayPass(status) || deadline.Expired()) return status;
    options.on_trouble(status);
    if (PauseOrCancelled(cancelled)) return Aborted("connecting the ranks was cancelled");
  }
}

Status CheckDevice(const WorkerOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Device device, ParseDevice(options.device));
  if (device.type == DeviceType::kCpu) return OkStatus();
  const std::string what = "device " + options.device + " cannot be used";
  LOCKSTEP_RETURN_IF_ERROR(Annotate(collective::nccl::Available(options.nccl_library), what));
  collective::nccl::SetDefaultsOfProcess(options.data_plaintext == "loopback");
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<collective::DeviceFacts> seen, ListDevices(options));
  if (device.index >= static_cast<int>(seen.size())) {
    return NotFound(what, ": this process sees ", seen.size(), " GPUs, counted from 0");
  }
  return OkStatus();
}

StatusOr<std::vector<collective::DeviceFacts>> ListDevices(const WorkerOptions& options) {
  return collective::nccl::ListDevices(options.nccl_library);
}

StatusOr<std::shared_ptr<collective::Accelerator>> OpenDevice(
    int index, const WorkerOptions& options, std::function<std::string()> describe_memory_use) {
  return collective::nccl::OpenDevice(
      {index, options.device_memory_bytes, std::move(describe_memory_use),
       options.registered_memory_bytes, options.max_gpu_communicators, options.nccl_library});
}

std::string HostOfDevices() { return collective::nccl::HostName(ThisHost().machine); }

bool AwaitDeviceEndings(Deadline deadline) { return collective::nccl::AwaitEndings(deadline); }

void EndBackends() {
  const Status left = collective::mpi::LeaveJob(Deadline::After(kLeavingTime));
  if (!left.ok()) log::Warn("this process ends without the others of its job: ", Message(left));
}

}  // namespace lockstep::worker
