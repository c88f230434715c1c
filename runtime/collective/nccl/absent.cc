// What nccl.h promises, where the build has no NCCL.
#include "runtime/collective/nccl/nccl.h"

namespace lockstep::collective::nccl {
namespace {

Status Absent() {
  return Unavailable(
      "this build has no NCCL: no CUDA toolkit was found when it was made, or LOCKSTEP_CUDA was "
      "\"no\"; run "
      "`tools/dev setup --cuda` and build again");
}

}  // namespace

Status Available(const std::string&) { return Absent(); }
std::string Version(const std::string&) { return ""; }
std::string HostName(const std::string& otherwise) { return otherwise; }
StatusOr<std::shared_ptr<RegisteredMemory>> RegisteredMemory::Allocate(const std::string&,
                                                                       std::shared_ptr<cuda::Gpu>,
                                                                       size_t) {
  return Absent();
}
StatusOr<std::unique_ptr<DeviceWorld>> Connect(const Options&, Deadline, const std::atomic<bool>*) {
  return Absent();
}

}  // namespace lockstep::collective::nccl
