#include "services/worker/register_desk.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <thread>

namespace lockstep::worker {
namespace {

using namespace std::chrono_literals;

RegisterDesk::Holdings Some(const RegisterDesk::Question& question) {
  return {{question.session, question.most, 0, {}}};
}

bool IsReadable(int fd) {
  pollfd descriptor{fd, POLLIN, 0};
  return poll(&descriptor, 1, 0) == 1;
}

TEST(RegisterDeskTest, TheExecutingThreadIsWokenAndTells) {
  RegisterDesk desk;
  EXPECT_FALSE(desk.IsAsked());
  StatusOr<RegisterDesk::Holdings> told = NotFound("");
  std::thread asking([&] { told = desk.Ask({SessionId(3), 20}, Deadline::After(1h)); });
  pollfd descriptor{desk.fd(), POLLIN, 0};
  ASSERT_EQ(poll(&descriptor, 1, 60'000), 1);
  desk.Answer(Some);
  asking.join();
  ASSERT_TRUE(told.ok()) << told.status();
  ASSERT_EQ(told->size(), 1u);
  EXPECT_EQ((*told)[0].session, SessionId(3));
  EXPECT_EQ((*told)[0].registers, 20u);
  EXPECT_FALSE(desk.IsAsked());
  EXPECT_FALSE(IsReadable(desk.fd())) << "or whoever waits for it would turn and turn";
}

TEST(RegisterDeskTest, WhoeverAsksGivesUpAndLeavesNothing) {
  RegisterDesk desk;
  EXPECT_EQ(desk.Ask({SessionId(3), 20}, Deadline::After(0ms)).status().code(),
            StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(desk.IsAsked());
  EXPECT_FALSE(IsReadable(desk.fd()));
  desk.Answer([](const RegisterDesk::Question&) -> RegisterDesk::Holdings {
    ADD_FAILURE() << "nobody asks any more";
    return {};
  });
}

}  // namespace
}  // namespace lockstep::worker
