#include "services/worker/settings.h"

#include <chrono>
#include <cstddef>

#include "runtime/base/device.h"
#include "services/config/service_settings.h"

namespace lockstep::worker {
namespace {

using namespace std::chrono_literals;

constexpr size_t kKiB = size_t{1} << 10;
constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kTiB = size_t{1} << 40;

constexpr char kLoopback[] = "loopback";
constexpr char kNetwork[] = "network";

Status CheckSha256(const std::string& text) {
  const bool is_one =
      text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (is_one) return OkStatus();
  return InvalidArgument("\"", text,
                         "\" is no SHA-256 in lower-case hexadecimal, as sha256sum "
                         "prints it");
}

}  // namespace

config::Settings WorkerSettings(WorkerOptions& options) {
  using namespace config;  // the kinds of rows
  return {
      Name("cluster", options.cluster,
           "Name of the cluster to join; without one, whichever answers."),
      Required(Endpoint("controller_endpoint", options.controller_endpoint,
                        "The controller's worker_endpoint.")),
      Integer("rank", options.rank, -1, kMaxWorkers - 1,
              "The rank to ask for; -1: the lowest that is free."),
      Choice("rank_from", options.rank_from, {"", "hostname", "slurm", "mpi"},
             "Where the rank comes from instead: hostname (the number at its end, as of a "
             "StatefulSet), slurm (SLURM_PROCID), mpi (what mpirun has set)."),
      Integer(
          "rank_offset", options.rank_offset, 0, kMaxWorkers - 1,
          "What is added to a rank that comes from elsewhere; where any will do, the lowest that "
          "this worker takes."),
      Checked(
          "device", "device", "cpu, cuda or cuda:NUMBER", options.device,
          "Where this worker's tensors are made: in host memory (cpu), on a GPU of this host that "
          "no other worker has (cuda), or on this one (cuda:1).",
          [](const std::string& text) { return ParseDevice(text).status(); }),
      Size("device_memory_bytes", options.device_memory_bytes, 0, 64 * kTiB,
           "Most bytes that tensors on the GPU have; 0B: as many as there are."),
      Size("registered_memory_bytes", options.registered_memory_bytes, 0, 64 * kTiB,
           "So much of the GPU's memory is registered with NCCL, and tensors have it first: what "
           "they send needs no copy on its way; 0B: none."),
      Integer("max_gpu_communicators", options.max_gpu_communicators, 2, 65536,
              "Most communicators of NCCL at a time: one connects the world, and a session has one "
              "for the world, one for its groups and one for each team that exchanges tensors on "
              "GPUs."),
      Integer("plan_lanes", options.plan_lanes, 0, 2,
              "Lanes of plans in host memory: with 2, ranks exchange on a thread of its own while "
              "functions compute; 0: 2 if this process may use more cores than ranks share memory "
              "here, else 1."),
      Choice("plan_graphs", options.plan_graphs, {"auto", "never"},
             "Whether a plan whose steps can all be captured is launched as one graph on this "
             "worker's GPU; never: step by step."),
      Text("nccl_library", options.nccl_library,
           "The file to load NCCL from; without one, libnccl.so.2, wherever the dynamic linker "
           "finds "
           "it."),
      PathList("module_path", options.module_path,
               "Directories that modules may be loaded from; without any, none can be loaded."),
      TextList("module_sha256", options.module_sha256,
               "SHA-256 digests, 64 hexadecimal digits each",
               "If there are any, only modules with one of these digests are loaded.", CheckSha256),
      Size("arena_bytes", options.arena_bytes, 16 * kMiB, 64 * kTiB,
           "Most memory that this worker's tensors take; it is taken as it is needed."),
      Size("communicator_bytes", options.communicator_bytes, 256 * kKiB, 256 * kMiB,
           "The part of arena_bytes that communicators take, at once: about 10KiB for each; a "
           "session has up to 18 on a worker, and up to 32 for its plans."),
      Count("max_registers", options.max_registers, 16, size_t{1} << 30,
            "Most live registers of one session."),
      Size("max_session_bytes", options.max_session_bytes, 0, 64 * kTiB,
           "Most bytes that the values in one session's registers take on this worker; 0B: as many "
           "as arena_bytes."),
      Count("max_modules", options.max_modules, 0, size_t{1} << 20,
            "Most modules that one session may load."),
      FilePath("compiler", options.compiler,
               "The program that compiles fragments; without one, $LOCKSTEP_COMPILER, or "
               "lockstep-compiler beside this program or in PATH.",
               "a file, such as /usr/bin/lockstep-compiler"),
      FilePath("cuda_compiler", options.cuda_compiler,
               "The program that compiles CUDA source for this worker's GPU; without one, "
               "$LOCKSTEP_CUDA_COMPILER, or lockstep-cuda-compiler beside this program or in PATH.",
               "a file, such as /usr/bin/lockstep-cuda-compiler"),
      Text("nvrtc_library", options.nvrtc_library,
           "The file that CUDA source is compiled by; without one, libnvrtc.so.13 or .12, wherever "
           "the dynamic linker finds it."),
      Duration("compiler_timeout", options.compiler_timeout, 100ms, 24h,
               "How long a fragment may take to compile, waiting for other workers of this host "
               "included."),
      Size("compiler_memory_bytes", options.compiler_memory_bytes, 0, 64 * kTiB,
           "Most address space of the fragment compiler, which parses what clients send; 0B: any."),
      FilePath("fragment_cache", options.fragment_cache,
               "The directory where compiled fragments are kept, which the workers of a host share "
               "and nobody else may write to; without one, each worker compiles for itself, and "
               "keeps them in memory.",
               "a directory, such as /var/cache/lockstep"),
      Integer("fragment_threads", options.fragment_threads, 1, 1024,
              "Threads among which this worker divides the loops and products of one fragment; "
              "results have the same bits with any number."),
      Endpoint("bulk_endpoint", options.bulk_endpoint,
               "Where this worker listens for bulk copies; worker-0's is used by clients. Without "
               "one, a free port at data_address."),
      MetricsEndpoint(options.metrics_endpoint),
      Text("data_address", options.data_address,
           "Where this worker listens for ranks that share no memory with it: an interface (eth0), "
           "a network (10.1.0.0/16), an address or a name of this host; without one, the address "
           "that the controller is reached from."),
      AddressForOthers(
          "advertise_address", options.advertise_address,
          "The address or name by which clients reach this worker, where it differs from the one "
          "that it listens at."),
      SecretKeyFile("key", options.key,
                    "This worker's secret key, for a controller that asks for "
                    "keys."),
      PublicKeys("controller_key", options.controller_key,
                 "The controller's public key, by which this worker knows it. Belongs to key."),
      Choice("command_rings", options.command_rings, {"auto", "off", "on"},
             "Whether commands come through memory that a controller of this host shares "
             "(command_rings there); on: without that this worker ends and says why, and the "
             "sessions of its cluster fail."),
      Choice("data_encryption", options.data_encryption, {"auto", "on", "off"},
             "What is encrypted of the tensors that go from rank to rank by tcp: all that leaves "
             "loopback, unless data_plaintext is network (auto); all (on); or nothing (off). Gloo, "
             "MPI and NCCL do not encrypt."),
      Choice("data_plaintext", options.data_plaintext, {kLoopback, kNetwork},
             "How far tensors may go from rank to rank where they are not encrypted: loopback "
             "(this host), or network (choose it only where nobody else is)."),
      Choice("after_shutdown", options.after_shutdown, {"exit", "rejoin"},
             "What a worker does once its controller was stopped in order: exit, or look for "
             "another one, with nothing in its registers (rejoin)."),
      RefusedPlaintext(),
      LogLevel(options.log_level),
      LogFormat(options.log_format),
      Duration("join_timeout", options.join_timeout, 100ms, 24h,
               "How long to look for the controller, and to wait for all workers to join."),
      Duration("controller_timeout", options.controller_timeout, 100ms, 24h,
               "A controller that is silent for this long is lost."),
      Duration("controller_grace", options.controller_grace, 0ms, 24h,
               "A worker whose controller is lost keeps its registers for this long while no other "
               "answers; then it exits. 0: it exits at once."),
      Duration("poll_before_sleep", options.poll_before_sleep, 0us, 100ms,
               "After a message, the executing thread looks again at once for this long before it "
               "sleeps."),
  };
}

config::Settings DescribeSettings() {
  WorkerOptions options;
  return config::Described(WorkerSettings(options));
}

void CheckKeys(const WorkerOptions& options, const std::vector<config::Entry>& entries,
               const std::string& prefix, config::Problems& problems) {
  config::CheckBothOrNone("key", options.key, "controller_key", options.controller_key, entries,
                          prefix, problems);
}

StatusOr<WorkerOptions> LoadOptions(const config::Sources& sources) {
  config::Problems problems;
  WorkerOptions options;
  const std::vector<config::Entry> entries = config::ReadSources(sources, problems);
  config::Apply(entries, WorkerSettings(options), config::NameOf(sources), problems);
  CheckKeys(options, entries, "", problems);
  if (options.key.empty()) {
    config::CheckNeedsKeys({{"controller_endpoint", options.controller_endpoint},
                            {"bulk_endpoint", options.bulk_endpoint},
                            {"metrics_endpoint", options.metrics_endpoint}},
                           "\"key: FILE\" and \"controller_key: KEY\"", entries, problems);
  }
  LOCKSTEP_RETURN_IF_ERROR(problems.ToStatus());
  return options;
}

std::string ToYaml(const WorkerOptions& options) {
  WorkerOptions copy = options;
  return config::ToYaml(WorkerSettings(copy));
}

}  // namespace lockstep::worker
