#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/sanitizers.h"
#include "runtime/base/shared_segment.h"
#include "runtime/collective/folder_rendezvous.h"
#include "runtime/collective/gloo/gloo.h"
#include "runtime/collective/shm/shm.h"
#include "runtime/collective/tcp/tcp.h"
#include "runtime/collective/two_level/two_level_communicator.h"
#include "runtime/tensor/arena.h"
#include "runtime/tensor/storage.h"
#include "tests/conformance/mpi_job.h"
#include "tests/conformance/ranks.h"
#include "tests/conformance/world_under_test.h"

namespace lockstep::collective {
namespace {

using Network = StatusOr<std::unique_ptr<message::MessageCommunicator>>;

// Waits that end by nothing but what they wait for: a wake-up that is missing is a deadline missed.
constexpr shm::WaitPolicy kAsleep = {
    .spins = 0, .yield_for = std::chrono::microseconds(0), .look_after = std::chrono::hours(1)};

void RunShmRank(int rank, const std::vector<std::string>& names, const shm::WaitPolicy& wait,
                const Body& body) {
  shm::Options options;
  options.wait = wait;
  options.rank = rank;
  options.arena_names = names;
  options.world = 1;
  auto arena = tensor::Arena::Create({.name = names[static_cast<size_t>(rank)]});
  ASSERT_TRUE(arena.ok()) << arena.status();
  options.arena = *arena;
  auto comm = shm::Connect(options, Patience());
  ASSERT_TRUE(comm.ok()) << comm.status();
  RankUnderTest under_test{**comm, **arena};
  body(under_test);
}

auto ShmThreads(const shm::WaitPolicy& wait) {
  return [wait](int size, const Body& body) {
    const std::vector<std::string> names = ArenaNames(size);
    RunThreads(size, [&](int rank) { RunShmRank(rank, names, wait, body); });
  };
}

auto ShmProcesses(const shm::WaitPolicy& wait) {
  return [wait](int size, const Body& body) {
    const std::vector<std::string> names = ArenaNames(size);
    RunProcesses(size, [&](int rank) { RunShmRank(rank, names, wait, body); });
    // A rank that was killed leaves its arena behind.
    for (const std::string& name : names) SharedSegment::Sweep(name);
  };
}

using ConnectRank = Network (*)(int rank, int size, const std::string& folder);

message::NetworkOptions OnLoopback(int rank, int size, const std::string& folder) {
  message::NetworkOptions options;
  options.rank = rank;
  options.size = size;
  options.rendezvous = std::make_shared<FolderRendezvous>(folder, rank);
  options.address = "127.0.0.1";
  return options;
}

Network ConnectGloo(int rank, int size, const std::string& folder) {
  return gloo::Connect(OnLoopback(rank, size, folder), Patience());
}

Network ConnectTcp(int rank, int size, const std::string& folder) {
  return tcp::Connect(OnLoopback(rank, size, folder), tcp::Protection(), Patience());
}

Network ConnectEncrypted(int rank, int size, const std::string& folder) {
  return tcp::Connect(OnLoopback(rank, size, folder), {.plaintext = tcp::Plaintext::kNowhere},
                      Patience());
}

void RunNetworkRank(ConnectRank connect, int rank, int size, const std::string& folder,
                    const Body& body) {
  const std::shared_ptr<tensor::Allocator> allocator = tensor::NewHeapAllocator();
  auto comm = connect(rank, size, folder);
  ASSERT_TRUE(comm.ok()) << comm.status();
  RankUnderTest under_test{**comm, *allocator};
  body(under_test);
}

// Ranks of two nodes, in turn: they share memory with every other rank only.
void RunTwoLevelRank(int rank, const std::vector<std::string>& names,
                     const std::function<Network()>& connect_network, size_t one_rail_bytes,
                     const Body& body) {
  const int size = static_cast<int>(names.size());
  std::vector<std::vector<Rank>> nodes(static_cast<size_t>(std::min(size, 2)));
  for (Rank r = 0; r < size; ++r) nodes[static_cast<size_t>(r % 2)].push_back(r);
  const std::vector<Rank>& own = nodes[static_cast<size_t>(rank % 2)];

  auto arena = tensor::Arena::Create({.name = names[static_cast<size_t>(rank)]});
  ASSERT_TRUE(arena.ok()) << arena.status();
  std::unique_ptr<Communicator> node;
  if (own.size() > 1) {
    shm::Options options;
    options.rank = rank;
    options.arena_names = names;
    options.members = own;
    options.world = 1;
    options.arena = *arena;
    auto connected = shm::Connect(options, Patience());
    ASSERT_TRUE(connected.ok()) << connected.status();
    node = *std::move(connected);
  }
  Network network = connect_network();
  ASSERT_TRUE(network.ok()) << network.status();
  const auto comm = two_level::Combine(nodes, std::move(node), *std::move(network), one_rail_bytes);
  RankUnderTest under_test{*comm, **arena};
  body(under_test);
}

auto TwoLevelThreads(ConnectRank connect) {
  return [connect](int size, const Body& body) {
    const RendezvousFolder folder;
    const std::vector<std::string> names = ArenaNames(size);
    // All rails for whatever is longer than a line.
    RunThreads(size, [&](int rank) {
      RunTwoLevelRank(
          rank, names, [&] { return connect(rank, size, folder.path()); }, 64, body);
    });
  };
}

void TwoLevelProcesses(int size, const Body& body) {
  const RendezvousFolder folder;
  const std::vector<std::string> names = ArenaNames(size);
  RunProcesses(size, [&](int rank) {
    RunTwoLevelRank(
        rank, names, [&] { return ConnectTcp(rank, size, folder.path()); },
        two_level::kOneRailBytes, body);
  });
  for (const std::string& name : names) SharedSegment::Sweep(name);
}

auto NetworkThreads(ConnectRank connect) {
  return [connect](int size, const Body& body) {
    const RendezvousFolder folder;
    RunThreads(size, [&](int rank) { RunNetworkRank(connect, rank, size, folder.path(), body); });
  };
}

auto NetworkProcesses(ConnectRank connect) {
  return [connect](int size, const Body& body) {
    const RendezvousFolder folder;
    RunProcesses(size, [&](int rank) { RunNetworkRank(connect, rank, size, folder.path(), body); });
  };
}

void MpiJob(int size, const Body& body) {
  RunMpiJob(size, [&](const std::string&, std::unique_ptr<message::MessageCommunicator> comm) {
    const std::shared_ptr<tensor::Allocator> allocator = tensor::NewHeapAllocator();
    RankUnderTest under_test{*comm, *allocator};
    body(under_test);
  });
}

void TwoLevelMpiJob(int size, const Body& body) {
  RunMpiJob(size,
            [&](const std::string& world, std::unique_ptr<message::MessageCommunicator> network) {
              const int rank = network->rank();
              RunTwoLevelRank(
                  rank, ArenaNames(size, world), [&] { return Network(std::move(network)); },
                  two_level::kOneRailBytes, body);
            });
}

}  // namespace

const std::vector<BackendUnderTest>& Backends() {
  // Of backends whose library they do not see, sanitizers see what is above it: messages between
  // each two ranks, whose number only changes how often they are sent. Three have two neighbours
  // each, and nodes of unequal size.
  const auto sizes = [](std::vector<int> all) {
    return kSanitized ? std::vector<int>{3} : std::move(all);
  };
  // Memory that a dying rank leaves behind is AddressSanitizer's affair; threads of one process do
  // what those of several do.
  const auto of_processes = [](std::vector<int> all) {
    return kThreadSanitized ? std::vector<int>{} : std::move(all);
  };
  static const std::vector<BackendUnderTest> backends = {
      {.name = "shm", .run = ShmThreads(shm::WaitPolicy()), .sizes = {2, 4}},
      {.name = "shm_asleep", .run = ShmThreads(kAsleep), .sizes = {1, 2, 3, 7}},
      // The same code as with threads; what differs is mapping, dying and waking.
      {.name = "shm_processes",
       .run = ShmProcesses(shm::WaitPolicy()),
       .sizes = {3},
       .processes = true,
       .notices_death = true},
      {.name = "shm_processes_asleep",
       .run = ShmProcesses(kAsleep),
       .sizes = {3},
       .processes = true},
      {.name = "tcp", .run = NetworkThreads(ConnectTcp), .sizes = sizes({1, 2, 4}), .splits = 20},
      {.name = "tcp_processes",
       .run = NetworkProcesses(ConnectTcp),
       .sizes = of_processes({3}),
       .processes = true,
       .notices_death = true,
       .splits = 20},
      {.name = "tcp_encrypted",
       .run = NetworkThreads(ConnectEncrypted),
       .sizes = {3},
       .splits = 20},
      {.name = "tcp_encrypted_processes",
       .run = NetworkProcesses(ConnectEncrypted),
       .sizes = of_processes({3}),
       .processes = true,
       .notices_death = true,
       .fails_only = true,
       .splits = 20},
      {.name = "gloo", .run = NetworkThreads(ConnectGloo), .sizes = sizes({1, 2, 4}), .splits = 20},
      {.name = "gloo_processes",
       .run = NetworkProcesses(ConnectGloo),
       .sizes = of_processes({3}),
       .processes = true,
       .notices_death = true,
       .fails_only = kSanitized,
       .splits = 20},
      {.name = "two_level",
       .run = TwoLevelThreads(ConnectTcp),
       .sizes = sizes({3, 5}),
       .splits = 20},
      {.name = "two_level_gloo",
       .run = TwoLevelThreads(ConnectGloo),
       .sizes = of_processes({3}),
       .splits = 20},
      {.name = "two_level_processes",
       .run = TwoLevelProcesses,
       .sizes = of_processes({4}),
       .processes = true,
       .notices_death = true,
       .fails_only = kSanitized,
       .splits = 20},
      // Their launcher ends all ranks when one is killed.
      {.name = "mpi_job",
       .run = MpiJob,
       .sizes = {3},
       .processes = true,
       .dies_together = true,
       .splits = 20,
       .why_not = WhyNoMpiJob()},
      {.name = "two_level_mpi_job",
       .run = TwoLevelMpiJob,
       .sizes = {4},
       .processes = true,
       .dies_together = true,
       .splits = 20,
       .why_not = WhyNoMpiJob()},
  };
  return backends;
}

}  // namespace lockstep::collective
