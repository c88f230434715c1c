// All ranks of a team in one process, for tests that look inside.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/shared_segment.h"
#include "runtime/collective/shm/team.h"
#include "runtime/tensor/arena.h"

namespace lockstep::collective::shm {

constexpr auto kPatience = std::chrono::seconds(100);
inline Deadline Patience() { return Deadline::After(kPatience); }

// Sleeps at once, until it is woken: one that is not woken sleeps until its deadline.
inline WaitPolicy Asleep() {
  return {
      .spins = 0, .yield_for = std::chrono::microseconds(0), .look_after = std::chrono::hours(1)};
}

inline std::vector<std::string> NewArenaNames(int size) {
  std::random_device random;
  const std::string prefix = SharedSegment::kNamePrefix + std::string("team-test-") +
                             std::to_string(random()) + "-" + std::to_string(random()) + "-";
  std::vector<std::string> names;
  for (int r = 0; r < size; ++r) names.push_back(prefix + std::to_string(r));
  return names;
}

// A rank's seat, and its memory.
struct Seat {
  std::shared_ptr<tensor::Arena> arena;
  std::unique_ptr<Team> team;
};

// Returns when all ranks have come.
inline Seat TakeSeat(int rank, const std::vector<std::string>& arena_names) {
  Seat seat;
  auto arena = tensor::Arena::Create(
      {.name = arena_names[static_cast<size_t>(rank)], .capacity_bytes = size_t{64} << 20});
  EXPECT_TRUE(arena.ok()) << arena.status();
  seat.arena = *std::move(arena);
  Options options;
  options.rank = rank;
  options.arena = seat.arena;
  options.arena_names = arena_names;
  options.wait = Asleep();
  auto world = ShmWorld::Connect(options, nullptr, Patience());
  EXPECT_TRUE(world.ok()) << world.status();
  std::vector<Rank> members(arena_names.size());
  std::iota(members.begin(), members.end(), 0);
  auto team = Team::Open(*std::move(world), /*key=*/1, std::move(members), rank, nullptr, nullptr,
                         Patience());
  EXPECT_TRUE(team.ok()) << team.status();
  seat.team = *std::move(team);
  return seat;
}

class Teams {
 public:
  explicit Teams(int size) : seats_(static_cast<size_t>(size)) {
    const std::vector<std::string> names = NewArenaNames(size);
    OnEveryRank([&](int rank) { seats_[static_cast<size_t>(rank)] = TakeSeat(rank, names); });
  }

  Team& operator[](int rank) { return *seats_[static_cast<size_t>(rank)].team; }
  tensor::Arena& arena(int rank) { return *seats_[static_cast<size_t>(rank)].arena; }

  void Close(int rank) { seats_[static_cast<size_t>(rank)].team.reset(); }

  // Runs `body` on a thread for each rank; returns when all are through.
  void OnEveryRank(const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < static_cast<int>(seats_.size()); ++rank) {
      threads.emplace_back(body, rank);
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Returns when the rank has said that it sleeps.
  void AwaitSleeper(int rank) {
    const std::atomic<uint32_t>& waiting_for = (*this)[rank].own().attention().waiting_for;
    while (waiting_for == kNoRank) std::this_thread::yield();
  }

 private:
  std::vector<Seat> seats_;
};

// `sleeper` ends well, and before its deadline would have ended it, although it sleeps on rank 0
// before `waker` begins.
inline void ExpectWoken(Teams& teams, const std::function<Status()>& sleeper,
                        const std::function<void()>& waker) {
  Status status;
  const auto begin = Deadline::Clock::now();
  std::thread thread([&] { status = sleeper(); });
  teams.AwaitSleeper(0);
  waker();
  thread.join();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_LT(Deadline::Clock::now() - begin, kPatience) << "it was not woken";
}

}  // namespace lockstep::collective::shm
