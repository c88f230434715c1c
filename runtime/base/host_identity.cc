#include "runtime/base/host_identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace lockstep {
namespace {

HostIdentity ReadIdentity() {
  HostIdentity identity;
  char name[256] = "unknown";
  gethostname(name, sizeof name - 1);
  identity.name = name;
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::getline(boot, identity.machine);
  identity.id = identity.machine;
  struct stat pid_namespace {};
  if (stat("/proc/self/ns/pid", &pid_namespace) == 0) {
    identity.id.append(1, '/').append(std::to_string(pid_namespace.st_ino));
  }
  return identity;
}

}  // namespace

const HostIdentity& ThisHost() {
  static const HostIdentity identity = ReadIdentity();
  return identity;
}

std::string ProcessLabel(const std::string& host, int pid) {
  return host + ":" + std::to_string(pid);
}

}  // namespace lockstep
