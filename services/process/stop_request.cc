#include "services/process/stop_request.h"

#include <utility>

namespace lockstep::process {

StatusOr<std::unique_ptr<StopRequest>> StopRequest::Watch(pid_t parent, int input_fd) {
  CatchStopSignals();
  std::unique_ptr<StopRequest> request(new StopRequest);
  const auto take = [request = request.get()](const std::string& reason) { request->Take(reason); };
  LOCKSTEP_ASSIGN_OR_RETURN(request->signals_, StopSignals::Watch(parent, take, input_fd));
  return request;
}

bool StopRequest::Came() const {
  std::lock_guard lock(mutex_);
  return !reason_.empty();
}

void StopRequest::Forward(std::function<void(const std::string&)> on_stop) {
  std::lock_guard lock(mutex_);
  on_stop_ = std::move(on_stop);
  if (on_stop_ && !reason_.empty()) on_stop_(reason_);
}

void StopRequest::Take(const std::string& reason) {
  std::lock_guard lock(mutex_);
  reason_ = reason;
  if (on_stop_) on_stop_(reason_);
}

}  // namespace lockstep::process
