// A question to the workers of a session that is under way: what a Future holds.
#pragma once

#include <memory>
#include <utility>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/client/session_core.h"
#include "runtime/control/channel.h"

namespace lockstep::client {

// Threads: one at a time.
class OpenQuestion {
 public:
  // Asks it; the errors of SessionCore::Pose.
  template <typename Fill>
  static StatusOr<std::unique_ptr<OpenQuestion>> Pose(std::shared_ptr<SessionCore> core, Rank from,
                                                      Fill&& fill) {
    std::unique_ptr<OpenQuestion> question(new OpenQuestion(std::move(core)));
    LOCKSTEP_RETURN_IF_ERROR(
        question->core_->Pose(from, std::forward<Fill>(fill), question->question_));
    return question;
  }
  ~OpenQuestion() { core_->GiveUp(question_); }
  OpenQuestion(const OpenQuestion&) = delete;
  OpenQuestion& operator=(const OpenQuestion&) = delete;

  bool IsDecided() { return core_->IsDecided(question_); }
  StatusOr<control::Frame> Await() { return core_->AwaitAnswer(question_); }
  // Whether its answer was taken, or will never come: then there is nothing more to be had.
  bool IsOver() const { return question_.over; }

 private:
  explicit OpenQuestion(std::shared_ptr<SessionCore> core) : core_(std::move(core)) {}

  const std::shared_ptr<SessionCore> core_;
  Question question_;
};

}  // namespace lockstep::client
