#include "runtime/client/admin.h"

#include <gtest/gtest.h>

#include "runtime/control/message_codec.h"
#include "schemas/session.capnp.h"

namespace lockstep::client {
namespace {

template <typename Fill>
StatusOr<ClusterStatus> Read(Fill fill) {
  return ReadClusterStatus({control::EncodeMessage<wire::ControllerMessage>(fill)});
}

TEST(ClusterStatusCodecTest, WorkersAreReadInTheOrderOfTheirRanks) {
  const StatusOr<ClusterStatus> status = Read([](auto message) {
    auto workers = message.initClusterStatus().initWorkers(2);
    workers[1].getPeer().setRank(1);
    workers[1].setReason("killed");
  });
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->workers.at(1).reason, "killed");
}

// Code that shows it looks workers up by their ranks.
TEST(ClusterStatusCodecTest, WorkerInThePlaceOfAnotherRankIsRefused) {
  const auto status = Read(
      [](auto message) { message.initClusterStatus().initWorkers(1)[0].getPeer().setRank(1000); });
  EXPECT_EQ(status.status().code(), StatusCode::kInternal);
}

TEST(ClusterStatusCodecTest, OtherMessagesAreNoStatus) {
  EXPECT_EQ(ReadClusterStatus({}).status().code(), StatusCode::kInternal);
  EXPECT_EQ(Read([](auto message) { message.initCredit(); }).status().code(),
            StatusCode::kInternal);
  EXPECT_EQ(Read([](auto message) { message.setShutdown("the end"); }).status().code(),
            StatusCode::kUnavailable);
}

}  // namespace
}  // namespace lockstep::client
