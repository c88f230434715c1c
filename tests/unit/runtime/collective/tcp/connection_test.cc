#include "runtime/collective/tcp/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "tests/unit/runtime/collective/tcp/sealed_ends.h"

namespace lockstep::collective::tcp {
namespace {

// Both ends of a connection, on one thread.
class ConnectionTest : public ::testing::Test {
 protected:
  ConnectionTest() {
    int ends[2] = {};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    a_ = Connection(Socket(ends[0]));
    b_ = Connection(Socket(ends[1]));
  }

  // Until neither moves anything.
  void MoveAll() {
    bool moved = true;
    while (moved) {
      moved = a_.Progress();
      moved |= b_.Progress();
    }
  }

  Connection a_;
  Connection b_;
};

// The same, of both kinds of connections.
class AnyConnectionTest : public ConnectionTest, public ::testing::WithParamInterface<bool> {
 protected:
  AnyConnectionTest() {
    if (!GetParam()) return;
    int ends[2] = {};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    auto sealed = SealedEnds();
    a_ = Connection(Socket(ends[0]), std::move(sealed.first));
    b_ = Connection(Socket(ends[1]), std::move(sealed.second));
  }
};
INSTANTIATE_TEST_SUITE_P(, AnyConnectionTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Sealed" : "Plain"; });

std::vector<uint8_t> Pattern(size_t size, int seed) {
  std::vector<uint8_t> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 31 + i / 251 + seed);
  return bytes;
}

TEST_P(AnyConnectionTest, MessagesOfAllSizesGoBothWaysAtOnce) {
  const std::vector<size_t> sizes = {
      1, 15, 16, 4096, kChunkBytes, kChunkBytes + 1, 3 * kChunkBytes - 1, 5};
  std::vector<std::vector<uint8_t>> sent;
  std::vector<std::vector<uint8_t>> there;
  std::vector<std::vector<uint8_t>> back;
  for (const size_t size : sizes) {
    sent.push_back(Pattern(size, static_cast<int>(sent.size())));
    there.emplace_back(size);
    back.emplace_back(size);
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    a_.Send(i, sent[i].data(), sizes[i]);
    b_.Send(i, sent[i].data(), sizes[i]);
    a_.Expect(i, back[i].data(), sizes[i]);
  }
  // In another order than they come in.
  for (size_t i = sizes.size(); i-- > 0;) b_.Expect(i, there[i].data(), sizes[i]);
  MoveAll();
  EXPECT_FALSE(a_.HasWork());
  EXPECT_FALSE(b_.HasWork());
  EXPECT_EQ(there, sent);
  EXPECT_EQ(back, sent);
}

TEST_P(AnyConnectionTest, AMessageThatNobodyExpectsYetWaits) {
  const uint32_t later = 7;
  const uint32_t now = 8;
  uint32_t got = 0;
  a_.Send(1, &now, sizeof now);
  a_.Send(2, &later, sizeof later);
  b_.Expect(1, &got, sizeof got);
  MoveAll();
  EXPECT_EQ(got, now);
  EXPECT_FALSE(b_.HasWork());
  EXPECT_FALSE(b_.is_lost());
  b_.Expect(2, &got, sizeof got);
  MoveAll();
  EXPECT_EQ(got, later);
}

TEST_P(AnyConnectionTest, WhoLeavesBehindAMessageThatWaitsIsHeard) {
  const std::vector<uint8_t> large = Pattern(kChunkBytes / 4, 1);
  uint32_t got = 0;
  a_.Send(2, large.data(), large.size());
  b_.Expect(1, &got, sizeof got);
  MoveAll();
  EXPECT_FALSE(b_.is_lost());
  EXPECT_EQ(b_.Events() & POLLIN, 0) << "it would not be read";
  a_.AddFarewell(InvalidArgument("the ranks disagree"));
  EXPECT_TRUE(a_.SendFarewell());
  a_.Close();
  pollfd found = {b_.fd(), b_.Events(), 0};
  ASSERT_EQ(poll(&found, 1, 10'000), 1);
  b_.NoteEvents(found.revents);
  while (!b_.is_lost()) (void)b_.Progress();
  EXPECT_TRUE(b_.HasWork()) << "what was expected has not come";
  EXPECT_EQ(b_.LeaveReason(), InvalidArgument("the ranks disagree"));
}

TEST_P(AnyConnectionTest, WhoGivesUpInTheMiddleOfAMessageSaysWhy) {
  // More than a connection holds.
  const std::vector<uint8_t> data = Pattern(64 * kChunkBytes, 1);
  std::vector<uint8_t> got(data.size());
  a_.Send(1, data.data(), data.size());
  while (a_.Progress()) {
  }
  ASSERT_TRUE(a_.HasWork());
  a_.Forget();
  a_.AddFarewell(Unavailable("rank 3 has ended"));
  b_.Expect(1, got.data(), got.size());
  while (!b_.is_lost()) {
    (void)a_.SendFarewell();
    (void)b_.Progress();
  }
  EXPECT_TRUE(b_.HasWork()) << "half a message is none";
  b_.Forget();
  EXPECT_EQ(b_.LeaveReason(), Unavailable("rank 3 has ended"));
}

// Filled up with zeros, it would be taken for whole.
TEST_F(ConnectionTest, NobodyBelievesTheLastChunkOfAMessageThatWasGivenUp) {
  const std::vector<uint8_t> data = Pattern(kChunkBytes, 1);
  std::vector<uint8_t> got(data.size());
  a_.Send(1, data.data(), data.size());
  (void)a_.Progress();
  if (!a_.HasWork()) GTEST_SKIP() << "the connections of this kernel hold a whole chunk";
  a_.Forget();
  a_.AddFarewell(Aborted("given up"));
  (void)a_.SendFarewell();  // there is nothing that could be said
  a_.Close();
  b_.Expect(1, got.data(), got.size());
  while (b_.Progress()) {
  }
  EXPECT_TRUE(b_.is_lost());
  EXPECT_TRUE(b_.HasWork());
  EXPECT_EQ(b_.LeaveReason(), std::nullopt);
}

TEST_P(AnyConnectionTest, APeerThatEndsOrLeavesIsLost) {
  uint32_t got = 0;
  a_.AddFarewell(OkStatus());
  EXPECT_TRUE(a_.SendFarewell());
  b_.Expect(1, &got, sizeof got);
  (void)b_.Progress();
  EXPECT_TRUE(b_.is_lost());
  EXPECT_EQ(b_.LeaveReason(), OkStatus());

  a_.Expect(1, &got, sizeof got);
  EXPECT_FALSE(a_.Progress());
  EXPECT_FALSE(a_.is_lost());
  b_.Close();
  (void)a_.Progress();
  EXPECT_TRUE(a_.is_lost());
  EXPECT_EQ(a_.LeaveReason(), std::nullopt) << "it has said nothing";
}

TEST_F(ConnectionTest, WhatIsNoMessageEndsTheConnection) {
  uint64_t got = 0;
  for (const ChunkHeader& header :
       {ChunkHeader{1, sizeof got + 1}, ChunkHeader{kLeaveTag, 1}, ChunkHeader{1, ~uint64_t{0}}}) {
    SCOPED_TRACE(header.left_bytes);
    int ends[2] = {};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    const Socket other(ends[1]);
    Connection connection{Socket(ends[0])};
    connection.Expect(1, &got, sizeof got);
    ASSERT_EQ(send(other.fd(), &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
    (void)connection.Progress();
    EXPECT_TRUE(connection.is_lost());
  }
}

// Headers and bytes without any sense: nothing is written but where a message is expected.
TEST_F(ConnectionTest, NonsenseDoesNoHarm) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    int ends[2] = {};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    Socket other(ends[1]);
    Connection connection{Socket(ends[0])};
    std::vector<uint8_t> got(1 + random() % 5000);
    connection.Expect(random() % 3, got.data(), got.size());
    for (int part = 0; part < 8; ++part) {
      const uint64_t tags[] = {0, 1, 2, 3, kLeaveTag};
      const uint64_t sizes[] = {0, 1, got.size(), 4096, 4097, random(), ~uint64_t{0}};
      const ChunkHeader header = {tags[random() % 5], sizes[random() % 7]};
      std::vector<uint8_t> bytes(sizeof header + random() % 6000);
      std::memcpy(bytes.data(), &header, sizeof header);
      const size_t sent = random() % 4 == 0 ? random() % bytes.size() : bytes.size();
      (void)send(other.fd(), bytes.data(), sent, MSG_DONTWAIT);
      (void)connection.Progress();
    }
    other = Socket();
    if (round % 2 == 0) connection.Forget();
    for (int i = 0; i < 10; ++i) (void)connection.Progress();
    (void)connection.LeaveReason();
  }
}

}  // namespace
}  // namespace lockstep::collective::tcp
