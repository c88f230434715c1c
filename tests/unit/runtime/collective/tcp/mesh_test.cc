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

  const RendezvousFolder folder_;
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

TEST_F(MeshTest, EachRankIsConnectedWithEach) {
  auto meshes = ConnectAll([](const std::string&) {}, "127.0.0.1");
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
      EXPECT_EQ(rendezvous
                    .Exchange(team.key, team.members, {"@127.0.0.1 1 " + std::string(32, '0')},
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
