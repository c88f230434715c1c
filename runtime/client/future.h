// Future: the answer to what a session has asked of its workers and does not wait for, so that one
// thread keeps several questions under way.
#pragma once

#include <memory>
#include <type_traits>

#include "runtime/base/status.h"
#include "runtime/control/value.h"

namespace lockstep {

class Session;

namespace client {
class OpenQuestion;
}

// `T`: what the answer brings; void: nothing but that all is well.
//
// Ownership: it keeps the session's state, not the session: a Session may be closed before. One
// that is dropped without Get() is not waited for; what was asked is done all the same.
//
// Threads: one at a time; those of one session may be used by several threads at once, beside the
// session itself.
template <typename T>
class Future {
 public:
  using Result = std::conditional_t<std::is_void_v<T>, Status, StatusOr<T>>;

  // Of no question.
  Future();
  Future(Future&&) noexcept;
  Future& operator=(Future&&) noexcept;
  ~Future();

  // Whether there is an answer to wait for: one was asked for, and Get() has not returned it yet.
  bool IsValid() const { return question_ != nullptr; }
  // Whether Get() returns at once. Takes in what has arrived, and never waits. False if there is no
  // question.
  bool IsReady() const;
  // Waits for the answer, and takes it. What the call that waits would return (see Session::SyncAll
  // and DebugGet), with the session's timeout counted from the question. kFailedPrecondition: there
  // is no question, or it was answered before; the session was closed before the answer came; or it
  // cannot come before this thread has issued the other half of a message (see
  // Session::SendToNextGroup), and only then the answer can still be had.
  Result Get();

 private:
  friend class Session;
  explicit Future(std::unique_ptr<client::OpenQuestion> question);

  std::unique_ptr<client::OpenQuestion> question_;
};

extern template class Future<void>;
extern template class Future<Value>;

}  // namespace lockstep
