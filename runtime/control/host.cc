#include "runtime/control/host.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <random>

namespace lockstep::control {
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

uint64_t RandomNumber() {
  std::random_device random;
  uint64_t number = 0;
  while (number == 0) number = uint64_t{random()} << 32 | random();
  return number;
}

std::string RandomHex(int count) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::random_device random;
  std::string text;
  for (int i = 0; i < count; ++i) {
    const unsigned byte = random() & 0xff;
    text += kDigits[byte >> 4];
    text += kDigits[byte & 0xf];
  }
  return text;
}

}  // namespace lockstep::control
