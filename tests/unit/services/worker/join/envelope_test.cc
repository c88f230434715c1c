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
control::Frame Encode(Fill fill) {
  return control::EncodeMessage<wire::Envelope>(fill);
}

template <typename Fill>
StatusOr<Envelope> Read(Fill fill) {
  return ReadEnvelope({Encode(fill)});
}

// A welcome to a world of `size` ranks.
template <typename Fill>
StatusOr<Envelope> ReadWelcomeOf(unsigned size, Fill fill) {
  return ReadEnvelope({Encode([&](auto envelope) { fill(envelope.initWelcome()); }),
                       control::EncodeMessage<wire::Arenas>(
                           [&](wire::Arenas::Builder arenas) { arenas.initSegments(size); })});
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

TEST(EnvelopeTest, WelcomeWithoutArenasIsRefused) {
  EXPECT_EQ(Read([](auto envelope) { envelope.initWelcome(); }).status().code(),
            StatusCode::kInternal);
  EXPECT_FALSE(ReadEnvelope({Encode([](auto envelope) { envelope.initWelcome(); }),
                             control::Frame::Copy("12345678", 8)})
                   .ok());
}

TEST(EnvelopeTest, RankOutsideTheWorldIsRefused) {
  EXPECT_EQ(ReadWelcomeOf(2, [](auto) {})->epoch, Epoch(0));
  EXPECT_FALSE(ReadWelcomeOf(0, [](auto) {}).ok());
  EXPECT_FALSE(ReadWelcomeOf(2, [](auto welcome) { welcome.setRank(2); }).ok());
  EXPECT_FALSE(ReadWelcomeOf(2, [](auto welcome) { welcome.setRank(-1); }).ok());
}

// Milliseconds that no clock counts in nanoseconds, and heartbeats without a pause.
TEST(EnvelopeTest, TimesOfAWelcomeFitTheClocks) {
  const StatusOr<Envelope> envelope = ReadWelcomeOf(1, [](auto welcome) {
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
