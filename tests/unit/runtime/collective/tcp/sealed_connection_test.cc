#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/collective/tcp/connection.h"
#include "tests/unit/runtime/collective/tcp/sealed_ends.h"

namespace lockstep::collective::tcp {
namespace {

using Bytes = std::vector<uint8_t>;

// An attacker on the way from one end to the other: hears what one sends, and decides what the
// other gets.
class SealedConnectionTest : public ::testing::Test {
 protected:
  struct OnTheWay {
    Connection end;
    Socket wire;
  };
  static OnTheWay WithEnd(Ciphers ciphers) {
    int ends[2] = {};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    return {Connection(Socket(ends[0]), std::move(ciphers)), Socket(ends[1])};
  }

  // What each of these messages, with tags from 1 on, is on the wire.
  static std::vector<Bytes> OnTheWire(const std::vector<Bytes>& messages) {
    OnTheWay sender = WithEnd(SealedEnds().first);
    std::vector<Bytes> wire;
    for (size_t i = 0; i < messages.size(); ++i) {
      sender.end.Send(i + 1, messages[i].data(), messages[i].size());
      wire.emplace_back();
      while (sender.end.HasWork()) {
        (void)sender.end.Progress();
        Bytes part(1 << 16);
        for (ssize_t got = 1; got > 0;) {
          got = recv(sender.wire.fd(), part.data(), part.size(), 0);
          if (got > 0) wire.back().insert(wire.back().end(), part.begin(), part.begin() + got);
        }
      }
    }
    return wire;
  }

  // A receiver that expects `sizes`, under tags from 1 on, and gets these bytes.
  struct Received {
    OnTheWay receiver;
    std::vector<Bytes> messages;
    bool has_all = false;
  };
  static Received Receive(const std::vector<size_t>& sizes, const Bytes& wire) {
    Received received{WithEnd(SealedEnds().second), {}};
    for (const size_t size : sizes) received.messages.emplace_back(size);
    Connection& end = received.receiver.end;
    for (size_t i = 0; i < sizes.size(); ++i) {
      end.Expect(i + 1, received.messages[i].data(), sizes[i]);
    }
    for (size_t sent = 0; sent < wire.size() && !end.is_lost();) {
      const ssize_t taken = send(received.receiver.wire.fd(), wire.data() + sent,
                                 wire.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (taken > 0) sent += static_cast<size_t>(taken);
      (void)end.Progress();
    }
    while (end.Progress()) {
    }
    received.has_all = !end.HasWork();
    return received;
  }

  static Bytes Text(size_t size) {
    Bytes text(size);
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<uint8_t>('a' + i % 26);
    return text;
  }
};

TEST_F(SealedConnectionTest, NothingOfAMessageIsOnTheWire) {
  const Bytes text = Text(1000);
  const std::vector<Bytes> wire = OnTheWire({text, text});
  EXPECT_NE(wire[0], wire[1]);
  const std::string all(wire[0].begin(), wire[0].end());
  EXPECT_EQ(all.size(), sizeof(ChunkHeader) + text.size() + 2 * Cipher::kTagBytes);
  for (size_t i = 0; i + 8 <= text.size(); i += 8) {
    EXPECT_EQ(all.find(std::string(text.begin() + static_cast<ptrdiff_t>(i),
                                   text.begin() + static_cast<ptrdiff_t>(i) + 8)),
              std::string::npos);
  }
  Bytes both = wire[0];
  both.insert(both.end(), wire[1].begin(), wire[1].end());
  const Received received = Receive({text.size(), text.size()}, both);
  EXPECT_TRUE(received.has_all);
  EXPECT_EQ(received.messages, (std::vector<Bytes>{text, text}));
}

TEST_F(SealedConnectionTest, NoBitCanBeChanged) {
  const Bytes text = Text(60);
  const Bytes right = OnTheWire({text})[0];
  for (size_t i = 0; i < right.size(); ++i) {
    SCOPED_TRACE(i);
    Bytes wrong = right;
    wrong[i] ^= static_cast<uint8_t>(1 << i % 8);
    const Received received = Receive({text.size()}, wrong);
    EXPECT_FALSE(received.has_all);
    EXPECT_TRUE(received.receiver.end.is_lost());
    EXPECT_TRUE(received.receiver.end.is_forged());
    EXPECT_EQ(received.messages[0], Bytes(text.size())) << "what is not authentic was left there";
  }
}

TEST_F(SealedConnectionTest, NoMessageCanBeRepeatedMovedOrLeftOut) {
  const Bytes text = Text(100);
  const std::vector<Bytes> wire = OnTheWire({text, text, text});
  const std::vector<std::vector<size_t>> orders = {{0, 0}, {1}, {1, 0}, {0, 2}, {0, 1, 1}};
  for (const std::vector<size_t>& order : orders) {
    SCOPED_TRACE(::testing::PrintToString(order));
    Bytes sent;
    for (const size_t i : order) sent.insert(sent.end(), wire[i].begin(), wire[i].end());
    const Received received = Receive({text.size(), text.size(), text.size()}, sent);
    EXPECT_FALSE(received.has_all);
    EXPECT_TRUE(received.receiver.end.is_forged());
  }
}

TEST_F(SealedConnectionTest, ALaterChunkOfAMessageIsAsSafe) {
  const Bytes text = Text(2 * kChunkBytes + 10);
  Bytes wire = OnTheWire({text})[0];
  EXPECT_EQ(Receive({text.size()}, wire).messages[0], text);
  wire[wire.size() - 20] ^= 1;
  const Received received = Receive({text.size()}, wire);
  EXPECT_FALSE(received.has_all);
  EXPECT_TRUE(received.receiver.end.is_forged());
}

TEST_F(SealedConnectionTest, HalfAMessageIsNone) {
  const Bytes text = Text(100);
  const Bytes wire = OnTheWire({text})[0];
  for (const size_t size : {size_t{1}, size_t{31}, size_t{32}, size_t{80}, wire.size() - 1}) {
    SCOPED_TRACE(size);
    Received received = Receive({text.size()}, Bytes(wire.begin(), wire.begin() + ptrdiff_t(size)));
    EXPECT_FALSE(received.receiver.end.is_lost()) << "the rest may come";
    received.receiver.wire = Socket();
    while (received.receiver.end.Progress()) {
    }
    EXPECT_TRUE(received.receiver.end.is_lost());
    EXPECT_TRUE(received.receiver.end.HasWork());
    EXPECT_EQ(received.receiver.end.LeaveReason(), std::nullopt);
  }
}

TEST_F(SealedConnectionTest, WhatARankHasSentIsNotTakenBackByIt) {
  OnTheWay sender = WithEnd(SealedEnds().first);
  Bytes text = Text(50);
  Bytes got(text.size());
  sender.end.Send(1, text.data(), text.size());
  sender.end.Expect(1, got.data(), got.size());
  (void)sender.end.Progress();
  Bytes wire(1000);
  const ssize_t size = recv(sender.wire.fd(), wire.data(), wire.size(), 0);
  ASSERT_GT(size, 0);
  ASSERT_EQ(send(sender.wire.fd(), wire.data(), static_cast<size_t>(size), 0), size);
  (void)sender.end.Progress();
  EXPECT_TRUE(sender.end.is_forged());
  EXPECT_TRUE(sender.end.HasWork());
}

TEST_F(SealedConnectionTest, APeerThatDoesNotEncryptOrHasAnotherKeyIsNotBelieved) {
  int ends[2] = {};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  Connection plain{Socket(ends[0])};
  Connection sealed{Socket(ends[1]), SealedEnds().second};
  const Bytes text = Text(50);
  Bytes got(text.size());
  plain.Send(1, text.data(), text.size());
  sealed.Expect(1, got.data(), got.size());
  (void)plain.Progress();
  (void)sealed.Progress();
  EXPECT_TRUE(sealed.is_forged());
  EXPECT_EQ(got, Bytes(text.size()));

  OnTheWay other =
      WithEnd({MakeCipher(Cipher::Use::kSeal, KeyOf(9)), MakeCipher(Cipher::Use::kOpen, KeyOf(9))});
  other.end.Send(1, text.data(), text.size());
  (void)other.end.Progress();
  Bytes wire(1000);
  const ssize_t size = recv(other.wire.fd(), wire.data(), wire.size(), 0);
  ASSERT_GT(size, 0);
  wire.resize(static_cast<size_t>(size));
  EXPECT_TRUE(Receive({text.size()}, wire).receiver.end.is_forged());
}

// Also who leaves cannot be made to say something else.
TEST_F(SealedConnectionTest, AForgedFarewellIsNone) {
  OnTheWay sender = WithEnd(SealedEnds().first);
  sender.end.AddFarewell(Unavailable("rank 3 has ended"));
  EXPECT_TRUE(sender.end.SendFarewell());
  Bytes wire(10000);
  const ssize_t size = recv(sender.wire.fd(), wire.data(), wire.size(), 0);
  ASSERT_GT(size, 0);
  wire.resize(static_cast<size_t>(size));
  Received right = Receive({8}, wire);
  EXPECT_EQ(right.receiver.end.LeaveReason(), Unavailable("rank 3 has ended"));
  wire[100] ^= 1;
  Received wrong = Receive({8}, wire);
  EXPECT_TRUE(wrong.receiver.end.is_forged());
  EXPECT_EQ(wrong.receiver.end.LeaveReason(), std::nullopt);
}

TEST_F(SealedConnectionTest, WhoHasGotSomethingForgedCanStillSayWhyItLeaves) {
  auto ends = SealedEnds();
  OnTheWay one = WithEnd(std::move(ends.first));
  OnTheWay other = WithEnd(std::move(ends.second));
  Bytes got(8);
  one.end.Expect(1, got.data(), got.size());
  const Bytes forged(200, 5);
  ASSERT_EQ(send(one.wire.fd(), forged.data(), forged.size(), 0), ssize_t(forged.size()));
  (void)one.end.Progress();
  ASSERT_TRUE(one.end.is_forged());
  one.end.Forget();
  one.end.AddFarewell(DataLoss("it was forged"));
  EXPECT_TRUE(one.end.SendFarewell());
  Bytes wire(10000);
  const ssize_t size = recv(one.wire.fd(), wire.data(), wire.size(), 0);
  ASSERT_GT(size, 0);
  ASSERT_EQ(send(other.wire.fd(), wire.data(), static_cast<size_t>(size), 0), size);
  other.end.Expect(1, got.data(), got.size());
  (void)other.end.Progress();
  EXPECT_EQ(other.end.LeaveReason(), DataLoss("it was forged"));
}

}  // namespace
}  // namespace lockstep::collective::tcp
