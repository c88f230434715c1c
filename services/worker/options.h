// What a worker is told at start: by a program, or by a file (settings.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace lockstep::worker {

// WorkerOptions::device of a worker without a GPU.
inline constexpr char kCpuDevice[] = "cpu";

struct WorkerOptions {
  // Name of the cluster to join; empty: whichever answers.
  std::string cluster;
  // The controller's endpoint for workers.
  std::string controller_endpoint;
  // The rank to ask for; -1: the lowest that is free.
  int rank = -1;
  // Where the rank comes from instead: "hostname", "slurm" or "mpi" (see join/rank_source.h);
  // empty: nowhere. `rank_offset` is added to it, or is the lowest that is taken where any will do.
  std::string rank_from;
  int rank_offset = 0;
  // Where tensors are made: "cpu", "cuda" (a GPU of this host that no other worker has), or
  // "cuda:1".
  std::string device = "cpu";
  // Most bytes that tensors on the GPU have; 0: as many as there are.
  size_t device_memory_bytes = 0;
  // Of the GPU's memory, so much is registered with NCCL; 0: none.
  size_t registered_memory_bytes = 0;
  // Most communicators of NCCL's at a time.
  int max_gpu_communicators = 64;
  // How many lanes plans have in host memory: 1, 2, or 0: as there are cores.
  int plan_lanes = 0;
  // Whether plans on GPUs are captured, and launched as one graph: "auto" (where they can be),
  // "never".
  std::string plan_graphs = "auto";
  // The file to load NCCL from; empty: wherever the dynamic linker finds it.
  std::string nccl_library;

  // Directories that modules may be loaded from.
  std::vector<std::string> module_path;
  // Upper bound of the arena that tensors live in; memory is taken as it is needed.
  size_t arena_bytes = size_t{16} << 30;
  // Shared memory for communicators, part of the arena and taken at once: about 10 KiB (in worlds
  // of some ten ranks) for each that this rank is in.
  size_t communicator_bytes = size_t{2} << 20;
  // Most live registers of one session.
  size_t max_registers = size_t{1} << 20;
  // Most bytes that the values in one session's registers take here; 0: as many as arena_bytes.
  size_t max_session_bytes = 0;
  // Most modules that one session may load.
  size_t max_modules = 64;
  // If not empty, only modules with one of these SHA-256 digests are loaded.
  std::vector<std::string> module_sha256;
  // The program that compiles fragments; empty: $LOCKSTEP_COMPILER, or `lockstep-compiler` beside
  // this program, or in PATH.
  std::string compiler;
  // The program that compiles CUDA source; empty: $LOCKSTEP_CUDA_COMPILER, or
  // `lockstep-cuda-compiler` in these places. And what it loads NVRTC from; empty: wherever the
  // dynamic linker finds it.
  std::string cuda_compiler;
  std::string nvrtc_library;
  // How long a fragment may take to compile, and how much address space; 0: any.
  std::chrono::milliseconds compiler_timeout{60'000};
  size_t compiler_memory_bytes = size_t{4} << 30;
  // The directory of compiled fragments, which the workers of a host share; empty: in memory only.
  std::string fragment_cache;
  // Threads that compute one fragment.
  int fragment_threads = 1;
  // Where bulk copies arrive: "tcp://127.0.0.1:*", "ipc://...", "inproc://..."; empty: a free port
  // at data_address.
  std::string bulk_endpoint;

  // Where metrics and health are served: http://ADDRESS:PORT (port * or 0: any free one); empty:
  // nowhere.
  std::string metrics_endpoint;
  // False: nothing is counted, not even progress, by which the controller sees what a worker does.
  // For measuring what counting costs; no setting.
  bool counts = true;

  // Where this worker's ranks listen for those that share no memory with them: an interface, a
  // network, an address or a name of this host. Empty: the address that the controller is reached
  // from.
  std::string data_address;
  // The address or name by which clients reach this worker; empty: where it listens.
  std::string advertise_address;
  // The file with this worker's secret key (or the key itself), and the controller's public key, or
  // a file of such keys. Both or none; without them only a controller on this host is reached.
  std::string key;
  std::string controller_key;
  // What its program does once the controller has sent it away: "exit", or "rejoin", which begins
  // anew with nothing.
  std::string after_shutdown = "exit";
  // Whether commands come through memory of the controller, if it offers that: "auto", where that
  // is possible; "off", by socket; "on", or else this worker ends.
  std::string command_rings = "auto";
  // What tcp encrypts of what goes from rank to rank: "auto", whatever may not go as it is; "on",
  // all of it; "off", nothing.
  std::string data_encryption = "auto";
  // "loopback", or "network": tensors may go from rank to rank over networks, although what carries
  // them there (tcp without encryption, gloo, MPI, NCCL) neither encrypts nor authenticates.
  std::string data_plaintext = "loopback";

  // Added to the times that this worker tells in timelines: another host's clock, for tests of how
  // clocks are compared; no setting.
  std::chrono::nanoseconds clock_shift{0};

  // What is logged, and how: see log::Configure().
  std::string log_level = "info";
  std::string log_format = "text";
  // How long to look for the controller, and for all workers to join.
  std::chrono::milliseconds join_timeout{60'000};
  // A controller that is silent for this long is lost.
  std::chrono::milliseconds controller_timeout{10'000};
  // A worker whose controller is lost keeps its registers for this long while it looks for one that
  // is started again at the same endpoints; then it exits. 0: it exits at once.
  std::chrono::milliseconds controller_grace{60'000};
  // After a message, the executing thread looks again at once for this long before it sleeps.
  std::chrono::microseconds poll_before_sleep{200};
};

// True if the tensors that its rank exchanges with others may leave its host: because they are
// encrypted (`can_encrypt`: what carries them is able to), or as they are.
inline bool MayUseNetworks(const WorkerOptions& options, bool can_encrypt) {
  return options.data_plaintext == "network" || (can_encrypt && options.data_encryption != "off");
}

}  // namespace lockstep::worker
