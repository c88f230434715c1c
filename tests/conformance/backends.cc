#include <gtest/gtest.h>

#include <random>
#include <string>
#include <thread>

#include "runtime/collective/shm/shm.h"
#include "runtime/tensor/arena.h"
#include "tests/conformance/world_under_test.h"

namespace lockstep::collective {
namespace {

using Body = std::function<void(RankUnderTest&)>;

void RunThreads(int size, const std::function<void(int)>& rank_main) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back(rank_main, rank);
  for (std::thread& thread : threads) thread.join();
}

void RunShm(int size, const Body& body) {
  // Random, because tests in sandboxes share /dev/shm and not their process ids.
  std::random_device random;
  const std::string prefix = std::string(SharedSegment::kNamePrefix) + "conformance-" +
                             std::to_string(random()) + "-" + std::to_string(random()) + "-";
  std::vector<std::string> names;
  std::vector<std::shared_ptr<tensor::Arena>> arenas;
  for (int rank = 0; rank < size; ++rank) {
    names.push_back(prefix + std::to_string(rank));
    auto arena = tensor::Arena::Create({.name = names.back()});
    ASSERT_TRUE(arena.ok()) << arena.status();
    arenas.push_back(std::move(*arena));
  }
  RunThreads(size, [&](int rank) {
    shm::Options options;
    options.rank = rank;
    options.arena = arenas[static_cast<size_t>(rank)];
    options.arena_names = names;
    options.world = 1;
    auto comm = shm::Connect(options, Patience());
    ASSERT_TRUE(comm.ok()) << comm.status();
    RankUnderTest under_test{**comm, *options.arena};
    body(under_test);
  });
}

}  // namespace

const std::vector<BackendUnderTest>& Backends() {
  static const std::vector<BackendUnderTest> backends = {{"shm", RunShm}};
  return backends;
}

}  // namespace lockstep::collective
