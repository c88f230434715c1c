// What `lockstep doctor` checks before a cluster is started: programs of one version, keys that can
// be used, and the machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "services/local/cluster_config.h"

namespace lockstep::cli {

enum class Verdict {
  kGood,
  kDoubtful,  // it will work, but not for everything, or not well
  kBad,       // a cluster will not start, or will fail
};

struct Finding {
  std::string subject;  // "shared memory"
  Verdict verdict = Verdict::kGood;
  std::string fact;    // how it is
  std::string remedy;  // how to mend it; empty if nothing needs to be
};

// What a cluster needs besides the machine: programs of one version, and keys that can be used.

// `name` ("lockstep-worker") is found, can be executed, and is of this program's version.
// `variable` and `folder` as in FindProgram().
Finding CheckProgram(const std::string& name, const std::string& variable,
                     const std::string& folder);

// The keys that the cluster's services on this host are to use, as far as they are here.
std::vector<Finding> CheckKeys(const local::ClusterOptions& cluster);
// One key file, and one with public keys (or such a key).
Finding CheckKeyFile(const std::string& whose, const std::string& path);
Finding CheckPublicKeys(const std::string& whose, const std::string& path_or_key);

// What a cluster needs of the machine: memory to share, files to open, a clock that is right, ways
// to other hosts.

// The file system at `path`, where arenas lie. `wanted_bytes`: what the workers of this host may
// take together.
Finding CheckSharedMemory(const std::string& path, uint64_t wanted_bytes);
// `soft` and `hard` limits of open files, for so many workers; what services make of them counts.
Finding CheckOpenFiles(uint64_t soft, uint64_t hard, int workers);
Finding CheckOpenFiles(int workers);
// The limit of locked memory, which drivers of GPUs and fast networks need.
Finding CheckLockedMemory(uint64_t soft_bytes);
Finding CheckLockedMemory();
// Whether something keeps the clock right (adjtimex(2)): logs and timelines of hosts are compared.
Finding CheckClock(bool is_synchronised, int64_t max_error_micros);
Finding CheckClock();
// What this control group may take (cgroups version 1 or 2; `root` is /sys/fs/cgroup), of which
// arenas are a part.
Finding CheckMemoryLimit(const std::string& root, uint64_t wanted_bytes);

struct Interface {
  std::string name;
  std::string address;  // in digits
  bool is_loopback = false;
};
Finding CheckInterfaces(const std::vector<Interface>& interfaces);
Finding CheckInterfaces();

// Whether this host has the GPUs that its workers ask for by `devices` ("cuda", "cuda:1", "cpu");
// no finding if none does.
std::vector<Finding> CheckGpus(const std::vector<std::string>& devices, const StatusOr<int>& gpus);
// How many the driver of this host tells of. kUnavailable: there is no driver, or it does not work.
StatusOr<int> CountGpus();

}  // namespace lockstep::cli
