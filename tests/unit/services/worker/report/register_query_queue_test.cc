#include "services/worker/report/register_query_queue.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <thread>

namespace lockstep::worker {
namespace {

using namespace std::chrono_literals;

RegisterQueryQueue::Holdings Some(const RegisterQueryQueue::Question& question) {
  return {{question.session, question.most, 0, {}}};
}

bool IsReadable(int fd) {
  pollfd descriptor{fd, POLLIN, 0};
  return poll(&descriptor, 1, 0) == 1;
}

TEST(RegisterQueryQueueTest, TheExecutingThreadIsWokenAndTells) {
  RegisterQueryQueue register_queries;
  EXPECT_FALSE(register_queries.IsAsked());
  StatusOr<RegisterQueryQueue::Holdings> told = NotFound("");
  std::thread asking([&] { told = register_queries.Ask({SessionId(3), 20}, Deadline::After(1h)); });
  pollfd descriptor{register_queries.fd(), POLLIN, 0};
  ASSERT_EQ(poll(&descriptor, 1, 60'000), 1);
  register_queries.Answer(Some);
  asking.join();
  ASSERT_TRUE(told.ok()) << told.status();
  ASSERT_EQ(told->size(), 1u);
  EXPECT_EQ((*told)[0].session, SessionId(3));
  EXPECT_EQ((*told)[0].registers, 20u);
  EXPECT_FALSE(register_queries.IsAsked());
  EXPECT_FALSE(IsReadable(register_queries.fd()))
      << "or the thread that waits for it would turn and turn";
}

TEST(RegisterQueryQueueTest, WhoeverAsksGivesUpAndLeavesNothing) {
  RegisterQueryQueue register_queries;
  EXPECT_EQ(register_queries.Ask({SessionId(3), 20}, Deadline::After(0ms)).status().code(),
            StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(register_queries.IsAsked());
  EXPECT_FALSE(IsReadable(register_queries.fd()));
  register_queries.Answer([](const RegisterQueryQueue::Question&) -> RegisterQueryQueue::Holdings {
    ADD_FAILURE() << "no Ask() waits any more";
    return {};
  });
}

}  // namespace
}  // namespace lockstep::worker
