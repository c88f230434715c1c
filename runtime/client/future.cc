#include "runtime/client/future.h"

#include <utility>

#include "runtime/client/open_question.h"
#include "runtime/client/session_messages.h"

namespace lockstep {
namespace {

Status Read(const control::Frame& /*body*/, Status* /*result*/) { return OkStatus(); }

Status Read(const control::Frame& body, StatusOr<Value>* result) {
  *result = client::ReadFetched(body);
  return result->status();
}

}  // namespace

template <typename T>
Future<T>::Future() = default;
template <typename T>
Future<T>::Future(std::unique_ptr<client::OpenQuestion> question)
    : question_(std::move(question)) {}
template <typename T>
Future<T>::Future(Future&&) noexcept = default;
template <typename T>
Future<T>& Future<T>::operator=(Future&&) noexcept = default;
template <typename T>
Future<T>::~Future() = default;

template <typename T>
bool Future<T>::IsReady() const {
  return question_ != nullptr && question_->IsDecided();
}

template <typename T>
typename Future<T>::Result Future<T>::Get() {
  if (question_ == nullptr) {
    return FailedPrecondition(
        "this Future has no answer to wait for: nothing was asked, or Get() has returned it "
        "before");
  }
  const StatusOr<control::Frame> body = question_->Await();
  if (question_->IsOver()) question_.reset();
  LOCKSTEP_RETURN_IF_ERROR(body.status());
  Result result;
  LOCKSTEP_RETURN_IF_ERROR(Read(*body, &result));
  return result;
}

template class Future<void>;
template class Future<Value>;

}  // namespace lockstep
