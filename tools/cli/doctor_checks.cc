#include "tools/cli/doctor_checks.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>

#include "runtime/base/child_process.h"
#include "runtime/base/quantity.h"
#include "runtime/base/resources.h"
#include "runtime/base/version.h"
#include "runtime/control/keys/allow_list.h"
#include "runtime/control/keys/gate.h"
#include "runtime/control/keys/key_file.h"
#include "services/local/temporary_directory.h"
#include "tools/text/format.h"

namespace lockstep::cli {
namespace {

constexpr std::chrono::seconds kPatience{10};

// What `program --version` prints.
StatusOr<std::string> VersionOf(const std::string& program) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto directory, local::TemporaryDirectory::Create());
  ChildOptions options;
  options.argv = {program, "--version"};
  options.log_path = directory->path() + "/version";
  LOCKSTEP_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Spawn(options));
  LOCKSTEP_ASSIGN_OR_RETURN(const ExitStatus status, child.WaitOrKill(Deadline::After(kPatience)));
  if (!status.ok()) return Unavailable(program, " --version ", status.Describe());
  std::string line;
  std::ifstream file(options.log_path);
  std::getline(file, line);
  return line;
}

Finding Of(const std::string& subject, const Status& problem) {
  return {subject, Verdict::kBad, Message(problem), "see docs/security.md"};
}

constexpr uint64_t kMiB = uint64_t{1} << 20;
// A worker's own descriptors, and some connections to others.
constexpr uint64_t kFilesPerWorker = 256;
constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

std::string BytesOrAll(uint64_t bytes) {
  return bytes >= kUnlimited / 2 ? "unlimited" : RoundedSize(bytes);
}

uint64_t Limit(rlim_t limit) { return limit == RLIM_INFINITY ? kUnlimited : limit; }

}  // namespace

Finding CheckProgram(const std::string& name, const std::string& variable,
                     const std::string& folder) {
  const StatusOr<std::string> path = FindProgram(name, variable, folder);
  if (!path.ok()) {
    return {name, Verdict::kBad, Message(path.status()), "install it beside lockstep"};
  }
  const StatusOr<std::string> version = VersionOf(*path);
  if (!version.ok()) {
    return {name, Verdict::kBad, Message(version.status()), "install it again"};
  }
  const std::string expected = name + " " + kBuildVersion;
  if (*version != expected) {
    return {name, Verdict::kBad,
            *path + " is \"" + *version + "\", this is lockstep " + kBuildVersion,
            "install all programs of one version"};
  }
  return {name, Verdict::kGood, *path + ", " + kBuildVersion, ""};
}

Finding CheckKeyFile(const std::string& whose, const std::string& path) {
  const StatusOr<control::KeyPair> key = control::ReadOwnKey(path);
  if (!key.ok()) return Of(whose + " key", key.status());
  return {whose + " key", Verdict::kGood, path + " is " + key->public_key.Text(), ""};
}

Finding CheckPublicKeys(const std::string& whose, const std::string& path_or_key) {
  const StatusOr<std::vector<control::PublicKey>> keys = control::ReadPublicKeys(path_or_key);
  if (!keys.ok()) return Of(whose + " public key", keys.status());
  return {whose + " public key", Verdict::kGood, keys->front().Text(), ""};
}

std::vector<Finding> CheckKeys(const local::ClusterOptions& cluster) {
  std::vector<Finding> findings;
  const controller::ControllerOptions& controller = cluster.controller;
  if (controller.key.empty()) {
    return {{"keys", Verdict::kGood,
             cluster.NeedsKeys() ? "`up` makes them" : "none: only this host reaches the cluster",
             ""}};
  }
  findings.push_back(CheckKeyFile("controller's", controller.key));
  const StatusOr<std::string> text = control::ReadTrustedFile(controller.allowed_keys);
  Status list = text.status();
  if (text.ok()) list = control::AllowList::Parse(*text, controller.allowed_keys).status();
  findings.push_back(list.ok()
                         ? Finding{"allowed keys", Verdict::kGood, controller.allowed_keys, ""}
                         : Of("allowed keys", list));
  if (!cluster.operator_key.empty()) {
    findings.push_back(CheckKeyFile("operator's", cluster.operator_key));
  }
  for (const worker::WorkerOptions& worker : cluster.ranks) {
    // Those of other hosts are there.
    if (worker.key.empty() || !cluster.HostOf(worker.rank).IsThisHost()) continue;
    findings.push_back(CheckKeyFile("worker's", worker.key));
    findings.push_back(CheckPublicKeys("controller's", worker.controller_key));
    break;  // of the others there is as much to say
  }
  return findings;
}

Finding CheckSharedMemory(const std::string& path, uint64_t wanted_bytes) {
  struct statvfs facts {};
  if (statvfs(path.c_str(), &facts) != 0) {
    return {"shared memory", Verdict::kBad, path + ": " + std::strerror(errno),
            "mount a tmpfs there: mount -t tmpfs -o size=8g tmpfs " + path};
  }
  const uint64_t size = facts.f_blocks * facts.f_frsize;
  const uint64_t free = facts.f_bavail * facts.f_frsize;
  const std::string fact = path + " has " + RoundedSize(size) + ", " + RoundedSize(free) +
                           " of it free; workers here may take " + RoundedSize(wanted_bytes);
  const std::string remedy = "mount -o remount,size=SIZE " + path +
                             " (containers: --shm-size), or a smaller worker.arena_bytes";
  // What docker gives unless told otherwise is too little for anything.
  if (free < std::min(wanted_bytes, 64 * kMiB)) {
    return {"shared memory", Verdict::kBad, fact, remedy};
  }
  if (free < wanted_bytes) return {"shared memory", Verdict::kDoubtful, fact, remedy};
  return {"shared memory", Verdict::kGood, fact, ""};
}

Finding CheckOpenFiles(uint64_t soft, uint64_t hard, int workers) {
  // In one process (`--embedded`), the workers share them.
  const uint64_t wanted = kFilesPerWorker * static_cast<uint64_t>(std::max(workers, 1));
  const uint64_t limit = RaisedDescriptorLimit(soft, hard);
  const std::string fact = "a service may open " +
                           (limit == kUnlimited ? "any number" : text::FormatCount(limit)) +
                           (limit == soft ? "; " : " (it raises its limit by itself); ") +
                           std::to_string(workers) + " workers want " + text::FormatCount(wanted);
  if (limit >= wanted) return {"open files", Verdict::kGood, fact, ""};
  const std::string how = hard >= wanted ? "ulimit -n " + std::to_string(wanted)
                                         : "raise the hard limit (LimitNOFILE= of systemd, "
                                           "--ulimit nofile= of docker)";
  return {"open files", limit < kFilesPerWorker ? Verdict::kBad : Verdict::kDoubtful, fact, how};
}

Finding CheckOpenFiles(int workers) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return CheckOpenFiles(Limit(limit.rlim_cur), Limit(limit.rlim_max), workers);
}

Finding CheckLockedMemory(uint64_t soft_bytes) {
  const std::string fact = "a process may lock " + BytesOrAll(soft_bytes);
  if (soft_bytes >= 64 * kMiB) return {"locked memory", Verdict::kGood, fact, ""};
  return {"locked memory", Verdict::kDoubtful,
          fact + ": enough for CPU workers; drivers of GPUs and of InfiniBand may want more",
          "ulimit -l unlimited (LimitMEMLOCK= of systemd, --ulimit memlock=-1 of docker)"};
}

Finding CheckLockedMemory() {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  return CheckLockedMemory(Limit(limit.rlim_cur));
}

Finding CheckClock(bool is_synchronised, int64_t max_error_micros) {
  if (is_synchronised) {
    return {"clock", Verdict::kGood,
            "synchronised, at most " + std::to_string(max_error_micros / 1000) + " ms off", ""};
  }
  return {"clock", Verdict::kDoubtful,
          "nothing keeps it right, as far as the kernel knows: the logs of several hosts may not "
          "agree about what came first (Lockstep itself compares no clocks)",
          "run chrony, ntpd or systemd-timesyncd on the host"};
}

Finding CheckClock() {
  timex facts{};
  const int state = adjtimex(&facts);
  return CheckClock(state >= 0 && state != TIME_ERROR && (facts.status & STA_UNSYNC) == 0,
                    facts.maxerror);
}

Finding CheckMemoryLimit(const std::string& root, uint64_t wanted_bytes) {
  for (const char* const file : {"/memory.max", "/memory/memory.limit_in_bytes"}) {
    std::ifstream in(root + file);
    uint64_t bytes = 0;
    // "max", or a number that no machine has, means that there is none.
    if (!(in >> bytes) || bytes > (uint64_t{1} << 60)) continue;
    const std::string fact =
        "this control group may take " + RoundedSize(bytes) + ", shared memory included";
    if (bytes >= wanted_bytes) return {"memory limit", Verdict::kGood, fact, ""};
    return {"memory limit", Verdict::kDoubtful,
            fact + "; workers here may take " + RoundedSize(wanted_bytes),
            "a larger limit (--memory of docker, resources.limits of Kubernetes), or a smaller "
            "worker.arena_bytes"};
  }
  return {"memory limit", Verdict::kGood, "none that this process can see", ""};
}

StatusOr<int> CountGpus() {
  // By the driver's own library, as the worker does it; nothing here is linked with CUDA.
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Unavailable("there is no NVIDIA driver here (", dlerror(), ")");
  using Init = int (*)(unsigned);
  using Count = int (*)(int*);
  const auto init = reinterpret_cast<Init>(dlsym(library, "cuInit"));
  const auto count = reinterpret_cast<Count>(dlsym(library, "cuDeviceGetCount"));
  if (init == nullptr || count == nullptr) return Unavailable("libcuda.so.1 is no NVIDIA driver");
  int gpus = 0;
  if (const int error = init(0); error != 0) {
    return Unavailable("the NVIDIA driver does not start: cuInit failed with ", error);
  }
  if (const int error = count(&gpus); error != 0) {
    return Unavailable("the NVIDIA driver tells of no GPU: cuDeviceGetCount failed with ", error);
  }
  return gpus;
}

std::vector<Finding> CheckGpus(const std::vector<std::string>& devices, const StatusOr<int>& gpus) {
  constexpr std::string_view kCuda = "cuda";
  int wanted = 0;
  int highest = -1;
  for (const std::string& device : devices) {
    if (!device.starts_with(kCuda)) continue;
    ++wanted;
    const size_t colon = device.find(':');
    if (colon != std::string::npos) highest = std::max(highest, std::atoi(&device[colon + 1]));
  }
  if (wanted == 0) return {};
  const std::string asked = text::Plural(static_cast<uint64_t>(wanted), "worker") + " here " +
                            (wanted == 1 ? "asks" : "ask") + " for a GPU each";
  if (!gpus.ok()) {
    return {{"GPUs", Verdict::kBad, asked + ", but " + std::string(Message(gpus.status())),
             "install NVIDIA's driver, give the container its GPUs (--gpus all), or "
             "worker.device: cpu"}};
  }
  const std::string fact =
      "this host has " + text::Plural(static_cast<uint64_t>(*gpus), "GPU") + "; " + asked;
  if (highest >= *gpus) {
    return {{"GPUs", Verdict::kBad, fact + ", one of them for number " + std::to_string(highest),
             "GPUs are counted from 0; CUDA_VISIBLE_DEVICES may hide some"}};
  }
  if (wanted > *gpus) {
    return {{"GPUs", Verdict::kBad, fact, "fewer workers on this host, or worker.device: cpu"}};
  }
  return {{"GPUs", Verdict::kGood, fact, ""}};
}

Finding CheckInterfaces(const std::vector<Interface>& interfaces) {
  std::string others;
  bool has_loopback = false;
  for (const Interface& one : interfaces) {
    has_loopback = has_loopback || one.is_loopback;
    if (!one.is_loopback) others += (others.empty() ? "" : ", ") + one.name + " " + one.address;
  }
  if (!has_loopback) {
    return {"network", Verdict::kBad, "there is no loopback interface that is up",
            "ip link set lo up"};
  }
  if (others.empty()) {
    return {"network", Verdict::kDoubtful, "only loopback: no other host can be reached",
            "nothing, for a cluster on this host"};
  }
  return {"network", Verdict::kGood, others, ""};
}

Finding CheckInterfaces() {
  std::vector<Interface> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return {"network", Verdict::kBad, std::string("cannot be listed: ") + std::strerror(errno), ""};
  }
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    char text[INET6_ADDRSTRLEN] = {};
    if (one->ifa_addr->sa_family == AF_INET) {
      inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, text,
                sizeof text);
    } else if (one->ifa_addr->sa_family == AF_INET6) {
      inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr, text,
                sizeof text);
    } else {
      continue;
    }
    found.push_back({one->ifa_name, text, (one->ifa_flags & IFF_LOOPBACK) != 0});
  }
  freeifaddrs(list);
  return CheckInterfaces(found);
}

}  // namespace lockstep::cli
