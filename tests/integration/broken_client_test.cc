// Clients that do not keep to the rules of flow control, or whose batches are lost on their way:
// their sessions fail for good, with an error that says why, and cost a bounded amount of memory.
#include <chrono>
#include <cstdint>
#include <string>

#include "tests/integration/session_fixture.h"
#include "tests/integration/wire_client.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kLimit = size_t{64} << 10;

class BrokenClientTest : public OwnClusterFixture {
 protected:
  ClusterOptions OwnOptions() override {
    ClusterOptions options;
    options.controller.flow_window_bytes = kLimit;
    options.controller.max_batch_bytes = kLimit;
    return options;
  }
  void TearDown() override {
    EXPECT_OK(session_->SyncAll()) << "no other client is harmed";
    SessionFixture::TearDown();
  }
  static control::Frame Sync() {
    return control::OneCommand([](wire::Command::Builder command) { command.setSync(); });
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, BrokenClientTest, ::testing::Values(ClusterKind::kTcpThreads),
                         NameOf);

TEST_P(BrokenClientTest, LostBatchFailsTheSession) {
  WireClient client(cluster_->address());
  ASSERT_EQ(client.Open(), OkStatus());
  client.SendBatch(client.session(), Sync(), 1, 1);
  EXPECT_EQ(client.NextVerdict(), OkStatus());
  client.SendBatch(client.session(), Sync(), 7, 2);
  const lockstep::Status status = client.NextVerdict();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status;
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("command 7"), HasSubstr("command 2"), HasSubstr("max_batch_bytes")));
}

TEST_P(BrokenClientTest, BatchThatComesAgainFailsTheSession) {
  WireClient client(cluster_->address());
  ASSERT_EQ(client.Open(), OkStatus());
  client.SendBatch(client.session(), Sync(), 1, 1);
  EXPECT_EQ(client.NextVerdict(), OkStatus());
  client.SendBatch(client.session(), Sync(), 1, 2);
  EXPECT_EQ(client.NextVerdict().code(), StatusCode::kDataLoss);
}

// ZeroMQ drops it with the connection, which is made anew: nothing else would tell.
TEST_P(BrokenClientTest, BatchThatIsTooLargeIsMissed) {
  WireClient client(cluster_->address());
  ASSERT_EQ(client.Open(), OkStatus());
  const std::string large(kLimit + 8, 'x');
  client.SendBatch(client.session(), control::Frame::Copy(large.data(), large.size()));
  // What goes over the old connection is lost with it.
  lockstep::Status status;
  for (uint64_t request = 1; request < 100 && status.code() != StatusCode::kDataLoss; ++request) {
    client.SendBatch(client.session(), Sync(), 1 + request, request);
    (void)client.Inspect(
        [&](wire::SessionStatus::Reader now) {
          if (now.hasError()) status = control::ReadError(now.getError()).ToStatus();
        },
        500ms);
  }
  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status;
  EXPECT_THAT(Message(status), HasSubstr("max_batch_bytes (65536)"));
}

// It says where the client is; the commands that were lost are not missed any more.
TEST_P(BrokenClientTest, ResetMendsALoss) {
  WireClient client(cluster_->address());
  ASSERT_EQ(client.Open(), OkStatus());
  client.SendBatch(client.session(), Sync(), 5);
  EXPECT_EQ(client.NextVerdict().code(), StatusCode::kDataLoss);
  client.SendReset(1, 1, 6);
  EXPECT_EQ(client.NextVerdict(), OkStatus());
  client.SendBatch(client.session(), Sync(), 6, 10, -1, 1, 20s, 1);
  EXPECT_EQ(client.NextVerdict(), OkStatus());
}

TEST_P(BrokenClientTest, ResetDoesNotMendWhatWasSentTwice) {
  WireClient client(cluster_->address());
  ASSERT_EQ(client.Open(), OkStatus());
  client.SendBatch(client.session(), Sync(), 1);
  client.SendBatch(client.session(), Sync(), 1);
  EXPECT_EQ(client.NextVerdict().code(), StatusCode::kDataLoss);
  for (uint32_t generation = 1; generation < 4; ++generation) {
    client.SendReset(generation, generation, 2);
    EXPECT_EQ(client.NextVerdict().code(), StatusCode::kDataLoss) << "told of the new failure";
    EXPECT_EQ(client.NextVerdict().code(), StatusCode::kDataLoss) << "the reset's answer";
  }
  client.SendBatch(client.session(), Sync(), 2, 10);
  EXPECT_EQ(client.NextVerdict().code(), StatusCode::kDataLoss);
  client.SendClose(11, 20s);
  EXPECT_EQ(client.NextVerdict(), OkStatus());
}

TEST_P(BrokenClientTest, ClientThatDoesNotWaitForCreditIsCutOff) {
  const uint64_t most_under_way = kLimit + 2 * control::FlowCost(kLimit) + (uint64_t{8} << 20);
  WireClient client(cluster_->address());
  ASSERT_EQ(client.Open(), OkStatus());
  // Nothing is consumed after this.
  client.SendBatch(client.session(), StuckBody(), 1, 0, -1, kStuckCommands);
  const control::Frame body = control::OneCommand([](wire::Command::Builder command) {
    command.initRelease().initRegisters(kLimit / 8 - 100);
  });
  for (uint64_t i = 0; i < 2 * most_under_way / kLimit; ++i)
    client.SendBatch(client.session(), body, 1 + kStuckCommands + i);
  const lockstep::Status status = client.NextVerdict();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(Message(status), AllOf(HasSubstr("window of 65536"), HasSubstr("credit")));
  ASSERT_TRUE(client.Inspect([&](wire::SessionStatus::Reader now) {
    EXPECT_LE(now.getSentBytes(), most_under_way);
    EXPECT_GT(now.getSentBytes(), most_under_way - 2 * kLimit) << "as much as clients may need";
  }));
}

}  // namespace
}  // namespace lockstep::testing
