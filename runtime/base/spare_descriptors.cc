#include "runtime/base/spare_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace lockstep {

bool SpareDescriptors::Release() {
  const bool held_some = !held_.empty();
  for (const int fd : held_) close(fd);
  held_.clear();
  return held_some;
}

void SpareDescriptors::Refill() {
  while (held_.size() < count_) {
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    held_.push_back(fd);
  }
}

bool SpareDescriptors::AreWanted(int error) { return error == EMFILE || error == ENFILE; }

}  // namespace lockstep
