#include "services/worker/join/envelope.h"

#include <gtest/gtest.h>

#include <limits>
#include <variant>

#include "runtime/base/deadline.h"
#include "runtime/control/message_codec.h"
#include "schemas/control.capnp.h"

namespace lockstep::worker {
namespace {

template <typename Fill>
StatusOr<Envelope> Read(Fill fill) {
  return ReadEnvelope({control::EncodeMessage<wire::Envelope>(fill)});
}

TEST(EnvelopeTest, NothingAndNonsenseAreRefused) {
  EXPECT_FALSE(ReadEnvelope({}).ok());
  EXPECT_FALSE(ReadEnvelope({control::Frame()}).ok());
  EXPECT_FALSE(ReadEnvelope({control::Frame::Copy("12345678", 8)}).ok());
}

TEST(EnvelopeTest, BatchWithoutABodyIsRefused) {
  EXPECT_EQ(Read([](auto envelope) { envelope.setBatch(); }).status().code(),
            StatusCode::kInternal);
}

TEST(EnvelopeTest, RankOutsideTheWorldIsRefused) {
  EXPECT_EQ(Read([](auto envelope) { envelope.initWelcome().initPeers(2); })->epoch, Epoch(0));
  EXPECT_FALSE(Read([](auto envelope) { envelope.initWelcome().setRank(0); }).ok());
  EXPECT_FALSE(Read([](auto envelope) {
                 auto welcome = envelope.initWelcome();
                 welcome.initPeers(2);
                 welcome.setRank(-1);
               }).ok());
}

// Milliseconds that no clock counts in nanoseconds, and heartbeats without a pause.
TEST(EnvelopeTest, TimesOfAWelcomeFitTheClocks) {
  const StatusOr<Envelope> envelope = Read([](auto builder) {
    auto welcome = builder.initWelcome();
    welcome.initPeers(1);
    welcome.setCollectiveTimeoutMillis(std::numeric_limits<uint64_t>::max());
    welcome.setHeartbeatMillis(0);
  });
  ASSERT_TRUE(envelope.ok()) << envelope.status();
  const Membership& membership = std::get<Membership>(envelope->content);
  EXPECT_GT(Deadline::After(membership.collective_timeout).Remaining(), std::chrono::hours(24));
  EXPECT_GT(membership.heartbeat_interval.count(), 0);
}

}  // namespace
}  // namespace lockstep::worker
