#include "services/worker/report/register_query_queue.h"

#include <utility>

namespace lockstep::worker {

StatusOr<RegisterQueryQueue::Holdings> RegisterQueryQueue::Ask(const Question& question,
                                                               Deadline deadline) {
  std::unique_lock lock(mutex_);
  question_ = question;
  answer_.reset();
  asked_ = true;
  wake_up_.Signal();
  answered_.wait_until(lock, deadline.when(), [this] { return answer_.has_value(); });
  asked_ = false;
  wake_up_.Clear();
  if (!answer_.has_value()) return DeadlineExceeded("the executing thread is busy");
  return *std::exchange(answer_, std::nullopt);
}

void RegisterQueryQueue::Answer(const std::function<Holdings(const Question&)>& look) {
  std::lock_guard lock(mutex_);
  if (!asked_) return;  // Ask() has given up
  answer_ = look(question_);
  asked_ = false;
  wake_up_.Clear();
  answered_.notify_one();
}

}  // namespace lockstep::worker
