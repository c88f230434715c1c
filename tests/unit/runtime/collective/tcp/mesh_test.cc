#include "runtime/collective/tcp/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/collective/folder_rendezvous.h"
#include "runtime/collective/tcp/introduction.h"

namespace lockstep::collective::tcp {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// Tells a stranger what ranks tell each other, before they do.
class OverheardRendezvous final : public Rendezvous {
 public:
  using Listener = std::function<void(const std::string& words)>;
  OverheardRendezvous(const std::string& folder, Rank rank, Listener listener)
      : rendezvous_(folder, rank), listener_(std::move(listener)) {}

  StatusOr<std::vector<std::string>> Exchange(uint64_t key, absl::Span<const Rank> members,
                                              const std::vector<std::string>& mine,
                                              const std::atomic<bool>* cancelled,
                                              Deadline deadline) override {
    listener_(mine.front());
    return rendezvous_.Exchange(key, members, mine, cancelled, deadline);
  }

 private:
  FolderRendezvous rendezvous_;
  const Listener listener_;
};

class MeshTest : public ::testing::Test {
 protected:
  static constexpr int kRanks = 3;

  StatusOr<std::vector<Connection>> Connect(Rank rank, OverheardRendezvous::Listener listener,
                                            const std::string& address = "127.0.0.1",
                                            const std::atomic<bool>* cancelled = nullptr) {
    Network network;
    network.address = address;
    network.protection = protections_[static_cast<size_t>(rank)];
    network.rendezvous =
        std::make_shared<OverheardRendezvous>(folder_.path(), rank, std::move(listener));
    return ConnectMesh(network, message::Team::OfWorld(1, kRanks, rank), cancelled,
                       Deadline::After(1h));
  }
  // Of all ranks; `listener` hears what rank 0 tells.
  std::vector<StatusOr<std::vector<Connection>>> ConnectAll(
      const OverheardRendezvous::Listener& listener, const std::string& address_of_last) {
    std::vector<StatusOr<std::vector<Connection>>> meshes(kRanks);
    std::vector<std::thread> threads;
    for (Rank rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        meshes[static_cast<size_t>(rank)] = Connect(
            rank, rank == 0 ? listener : [](const std::string&) {},
            rank == kRanks - 1 ? address_of_last : "127.0.0.1");
      });
    }
    for (std::thread& thread : threads) thread.join();
    return meshes;
  }

  // Each with each: a message there and back.
  static void ExpectConnected(std::vector<StatusOr<std::vector<Connection>>>& meshes);

  const RendezvousFolder folder_;
  std::vector<Protection> protections_{kRanks};
};

// A stranger's connection to the place that these words name.
Socket Call(const std::string& words) {
  std::istringstream fields(words.substr(1));  // behind '@'
  Place place;
  fields >> place.address >> place.port;
  StatusOr<Socket> socket = Socket::Connect(place);
  EXPECT_TRUE(socket.ok()) << socket.status();
  pollfd connected = {socket->fd(), POLLOUT, 0};
  EXPECT_EQ(poll(&connected, 1, 10'000), 1);
  return *std::move(socket);
}

TEST_F(MeshTest, AStrangerIsNobodysPeer) {
  std::vector<Socket> strangers;
  const auto meshes = ConnectAll(
      [&](const std::string& words) {
        // Many say nothing; one says too little, one is wrong, one knows all but the secret.
        for (int i = 0; i < 100; ++i) strangers.push_back(Call(words));
        for (const std::string& said :
             {std::string("lock"), std::string(48, 'x'),
              std::string("lockstep\1\0\0\0\0\0\0\0", 16) + std::string(32, '0')}) {
          strangers.push_back(Call(words));
          ASSERT_EQ(send(strangers.back().fd(), said.data(), said.size(), 0),
                    static_cast<ssize_t>(said.size()));
        }
      },
      "127.0.0.1");
  for (const auto& mesh : meshes) ASSERT_TRUE(mesh.ok()) << mesh.status();
  // Who is closed reads the end.
  for (const Socket& stranger : strangers) {
    pollfd closed = {stranger.fd(), POLLIN, 0};
    EXPECT_EQ(poll(&closed, 1, 10'000), 1);
  }
}

void MeshTest::ExpectConnected(std::vector<StatusOr<std::vector<Connection>>>& meshes) {
  for (auto& mesh : meshes) ASSERT_TRUE(mesh.ok()) << mesh.status();
  for (size_t from = 0; from < kRanks; ++from) {
    for (size_t to = 0; to < kRanks; ++to) {
      if (from == to) continue;
      const uint64_t sent = from * 10 + to;
      uint64_t got = 0;
      (*meshes[from])[to].Send(1, &sent, sizeof sent);
      (*meshes[to])[from].Expect(1, &got, sizeof got);
      const Deadline deadline = Deadline::After(10s);
      while ((*meshes[to])[from].HasWork() && !deadline.Expired()) {
        (void)(*meshes[from])[to].Progress();
        (void)(*meshes[to])[from].Progress();
      }
      EXPECT_EQ(got, sent);
    }
  }
}

TEST_F(MeshTest, EachRankIsConnectedWithEach) {
  auto meshes = ConnectAll([](const std::string&) {}, "127.0.0.1");
  ExpectConnected(meshes);
}

TEST_F(MeshTest, OneRankThatEncryptsIsEnough) {
  protections_[0] = {.plaintext = Plaintext::kAnywhere};
  protections_[1] = {.plaintext = Plaintext::kNowhere};
  auto meshes = ConnectAll([](const std::string&) {}, "127.0.0.1");
  ExpectConnected(meshes);
}

// Who reads the rendezvous, or the network, has not the keys: a stranger knows all that ranks tell
// each other.
TEST_F(MeshTest, WhoKnowsWhatEncryptedRanksTellIsNobodysPeer) {
  for (Protection& protection : protections_) protection.plaintext = Plaintext::kNowhere;
  Socket stranger;
  auto meshes = ConnectAll(
      [&](const std::string& words) {
        std::istringstream fields(words);
        std::string address, port, secret;
        fields >> address >> port >> secret;
        const std::string said = std::string("lockstep\1\0\0\0\0\0\0\0", 16) + secret;
        stranger = Call(words);
        ASSERT_EQ(send(stranger.fd(), said.data(), said.size(), 0),
                  static_cast<ssize_t>(said.size()));
      },
      "127.0.0.1");
  ExpectConnected(meshes);
  pollfd closed = {stranger.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&closed, 1, 10'000), 1);
}

TEST_F(MeshTest, RanksThatDoNotAgreeWhetherToEncryptAreToldSo) {
  protections_[0] = {.plaintext = Plaintext::kNowhere};
  protections_[2] = {.plaintext = Plaintext::kAnywhere, .can_encrypt = false};
  for (const auto& mesh : ConnectAll([](const std::string&) {}, "127.0.0.1")) {
    EXPECT_EQ(mesh.status().code(), StatusCode::kFailedPrecondition) << mesh.status();
    EXPECT_THAT(Message(mesh.status()), HasSubstr("rank 2 does not encrypt what it sends to rank "
                                                  "0 (127.0.0.1 and 127.0.0.1)"));
  }
}

TEST(IntroductionTest, WhatLeavesTheHostIsEncryptedUnlessBothAllowPlaintext) {
  Introduction one{.place = {"127.0.0.1", 1}};
  Introduction other{.place = {"::1", 1}};
  EXPECT_FALSE(MustEncrypt(one, other));
  for (const char* const away : {"10.1.0.1", "fd00::7", "128.0.0.1", "eth0"}) {
    other.place.address = away;
    EXPECT_TRUE(MustEncrypt(one, other)) << away;
    EXPECT_TRUE(MustEncrypt(other, one)) << away;
  }
  one.plaintext = Plaintext::kAnywhere;
  EXPECT_TRUE(MustEncrypt(one, other));
  other.plaintext = Plaintext::kAnywhere;
  EXPECT_FALSE(MustEncrypt(one, other));
  one.plaintext = Plaintext::kNowhere;
  EXPECT_TRUE(MustEncrypt(one, other));
}

TEST(IntroductionTest, OnlyAWholeOneIsRead) {
  const Introduction told{.place = {"10.1.0.1", 7},
                          .secret = std::string(Introduction::kSecretBytes, 's'),
                          .public_key = "ab",
                          .plaintext = Plaintext::kNowhere};
  const auto heard = Introduction::Parse(told.ToText());
  ASSERT_TRUE(heard.ok()) << heard.status();
  EXPECT_EQ(heard->ToText(), told.ToText());
  const std::string secret = " " + told.secret;
  for (const std::string& text :
       {std::string(), std::string("10.1.0.1 7"), "10.1.0.1 7" + secret,
        "10.1.0.1 7" + secret + " ab", "10.1.0.1 7" + secret + " ab 3",
        "10.1.0.1 7" + secret + " ab -1", "10.1.0.1 70000" + secret + " ab 1",
        std::string("10.1.0.1 7 short ab 1")}) {
    EXPECT_EQ(Introduction::Parse(text).status().code(), StatusCode::kUnavailable) << text;
  }
}

TEST_F(MeshTest, WhoCannotListenIsNamedOnAllRanks) {
  const auto meshes = ConnectAll([](const std::string&) {}, "203.0.113.9");
  for (const auto& mesh : meshes) {
    EXPECT_EQ(mesh.status().code(), StatusCode::kUnavailable);
    EXPECT_THAT(Message(mesh.status()), HasSubstr("cannot listen at \"203.0.113.9\""));
  }
  EXPECT_THAT(Message(meshes[0].status()), HasSubstr("rank 2 "));
}

TEST_F(MeshTest, WaitingForRanksThatDoNotCallCanBeCancelled) {
  std::atomic<bool> cancelled{false};
  const message::Team team = message::Team::OfWorld(1, kRanks, 0);
  // They tell where they are, and no more.
  std::vector<std::thread> threads;
  std::atomic<int> told{0};
  for (const Rank rank : {1, 2}) {
    threads.emplace_back([&, rank] {
      FolderRendezvous rendezvous(folder_.path(), rank);
      EXPECT_EQ(
          rendezvous
              .Exchange(team.key, team.members, {"@127.0.0.1 1 " + std::string(32, '0') + " - 1"},
                        nullptr, Deadline::After(1h))
              .status(),
          OkStatus());
      if (++told == 2) cancelled = true;
    });
  }
  const auto mesh = Connect(
      0, [](const std::string&) {}, "127.0.0.1", &cancelled);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(mesh.status().code(), StatusCode::kAborted) << mesh.status();
}

}  // namespace
}  // namespace lockstep::collective::tcp
