#include "services/process/stop_request.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace lockstep::process {
namespace {

using namespace std::chrono_literals;

// The end of an input asks for the stop: a second signal would end the test.
class StopRequestTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(pipe(ends_), 0);
    auto request = StopRequest::Watch(/*parent=*/0, ends_[0]);
    ASSERT_TRUE(request.ok()) << request.status();
    request_ = *std::move(request);
  }
  void TearDown() override {
    request_.reset();
    close(ends_[0]);
    Ask();
  }
  void Ask() {
    if (ends_[1] >= 0) close(std::exchange(ends_[1], -1));
  }
  std::future<std::string> Forwarded() {
    request_->Forward([this](const std::string& reason) { reason_.set_value(reason); });
    return reason_.get_future();
  }

  int ends_[2];
  std::promise<std::string> reason_;
  std::unique_ptr<StopRequest> request_;
};

TEST_F(StopRequestTest, WhoForwardsIsCalledOnceItComes) {
  EXPECT_FALSE(request_->Came());
  std::future<std::string> reason = Forwarded();
  EXPECT_EQ(reason.wait_for(20ms), std::future_status::timeout);
  Ask();
  EXPECT_EQ(reason.get(), "the standard input has ended");
  EXPECT_TRUE(request_->Came());
}

TEST_F(StopRequestTest, OneThatCameBeforeIsForwardedAtOnce) {
  Ask();
  while (!request_->Came()) std::this_thread::yield();
  EXPECT_EQ(Forwarded().wait_for(0s), std::future_status::ready);
}

TEST_F(StopRequestTest, WhoIsNotTheParentIsNotWatched) {
  EXPECT_EQ(StopRequest::Watch(getpid(), -1).status().code(), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace lockstep::process
