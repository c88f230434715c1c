#include "tools/cli/top/sampler.h"

#include <utility>

#include "runtime/client/admin.h"

namespace lockstep::cli {

Sampler::~Sampler() {
  cancel_.Signal();
  if (thread_.joinable()) thread_.join();
}

void Sampler::Start() {
  is_done_ = false;
  thread_ = std::thread([this] {
    StatusOr<ClusterStatus> status = GetClusterStatus(controller_, timeout_, cancel_.fd());
    if (status.ok()) {
      sample_ = Sample{*std::move(status), std::chrono::steady_clock::now()};
    } else {
      sample_ = status.status();
    }
    is_done_ = true;
  });
}

std::optional<StatusOr<Sample>> Sampler::Take() {
  if (!is_done_) return std::nullopt;
  thread_.join();
  return std::exchange(sample_, std::nullopt);
}

}  // namespace lockstep::cli
