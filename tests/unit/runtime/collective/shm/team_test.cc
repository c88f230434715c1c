#include "runtime/collective/shm/team.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/runtime/collective/shm/teams.h"

namespace lockstep::collective::shm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Call kBroadcast = {.kind = Kind::kBroadcast, .dtype = DType::kInt8};

// Publishes a slot with `count` and waits for the others'.
Status Meet(Team& team, uint64_t count, Deadline deadline = Patience()) {
  Slot& slot = team.NextSlot();
  slot.call = kBroadcast;
  slot.count = count;
  slot.counts_hash = 0;
  slot.payload.bytes[0] = static_cast<std::byte>(team.rank());
  return team.Meet(deadline);
}

TEST(TeamTest, EverybodySeesEverybodysSlot) {
  Teams teams(3);
  teams.OnEveryRank([&](int rank) {
    for (uint64_t i = 0; i < 100; ++i) {
      ASSERT_TRUE(Meet(teams[rank], i).ok());
      for (int r = 0; r < 3; ++r) {
        EXPECT_EQ(teams[rank].SlotOf(r).count, i);
        EXPECT_EQ(teams[rank].SlotOf(r).payload.bytes[0], static_cast<std::byte>(r));
      }
    }
  });
}

TEST(TeamTest, RanksThatDisagreeAllFail) {
  Teams teams(3);
  teams.OnEveryRank([&](int rank) {
    const Status status = Meet(teams[rank], rank == 1 ? 5 : 4);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    EXPECT_NE(Message(status).find("rank 1 calls broadcast of 5 int8"), std::string::npos)
        << status;
    EXPECT_EQ(teams[rank].Usable(), status);
  });
}

TEST(TeamTest, MeetingWakesWhoSleeps) {
  Teams teams(2);
  ExpectWoken(
      teams, [&] { return Meet(teams[0], 1); }, [&] { EXPECT_TRUE(Meet(teams[1], 1).ok()); });
}

TEST(TeamTest, FinishingAPhaseWakesWhoSleeps) {
  Teams teams(2);
  ExpectWoken(
      teams, [&] { return teams[0].FinishPhase(Patience()); },
      [&] { EXPECT_TRUE(teams[1].FinishPhase(Patience()).ok()); });
}

TEST(TeamTest, ANoteWakesWhoSleeps) {
  Teams teams(2);
  std::atomic<bool> came{false};
  ExpectWoken(
      teams, [&] { return teams[0].WaitFor([&] { return came.load(); }, {1}, "come", Patience()); },
      [&] {
        came = true;
        teams[1].Notify(0);
      });
}

TEST(TeamTest, LeavingAndClosingWakeWhoSleeps) {
  for (const bool closes : {false, true}) {
    auto teams = std::make_unique<Teams>(2);
    ExpectWoken(
        *teams,
        [&] {
          const Status status = Meet((*teams)[0], 1);
          EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
          EXPECT_NE(Message(status).find("rank 1 gave up"), std::string::npos) << status;
          return OkStatus();
        },
        [&] {
          if (closes) {
            teams->Close(1);
          } else {
            EXPECT_FALSE((*teams)[1].Fail(Internal("enough")).ok());
          }
        });
  }
}

TEST(TeamTest, AnAbortWakesWhoSleepsAndNobodyElse) {
  Teams teams(2);
  ExpectWoken(
      teams,
      [&] {
        EXPECT_EQ(Meet(teams[0], 1).code(), StatusCode::kAborted);
        return OkStatus();
      },
      [&] { teams[0].Abort(Internal("enough")); });
  EXPECT_TRUE(teams[1].Usable().ok());
}

TEST(TeamTest, NobodyBeginsToTouchWhenOneHasLeft) {
  Teams teams(2);
  ASSERT_FALSE(teams[0].Fail(Internal("enough")).ok());
  EXPECT_EQ(teams[1].BeginTouching().code(), StatusCode::kUnavailable);
}

// What it has read may have changed while it read.
TEST(TeamTest, WhoIsAbandonedWhileTouchingFails) {
  Teams teams(3);
  teams.OnEveryRank([&](int rank) { ASSERT_TRUE(Meet(teams[rank], 1).ok()); });
  ASSERT_TRUE(teams[1].BeginTouching().ok());
  ASSERT_TRUE(teams[2].BeginTouching().ok());
  EXPECT_TRUE(teams[0].FinishPhase(Deadline::After(milliseconds(1))).code() ==
              StatusCode::kDeadlineExceeded);
  const Status status = teams[1].FinishPhase(Patience());
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_NE(Message(status).find("rank 0 gave up"), std::string::npos) << status;
  EXPECT_FALSE(teams[0].WasAbandonedWriting()) << "no rank was to write to its memory";
}

// A rank in a process of its own, which stops in the middle of touching the tensors of rank 0.
class StoppingRank {
 public:
  // It writes `size` times 0xff at `offset` of the arena of rank 0 when it goes on.
  StoppingRank(const std::vector<std::string>& arena_names, uint64_t offset, size_t size) {
    child_ = fork();
    EXPECT_GE(child_, 0);
    if (child_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Seat seat = TakeSeat(1, arena_names);
    Team& team = *seat.team;
    bool ok = Meet(team, 1).ok() && team.BeginTouching().ok();
    raise(SIGSTOP);
    std::memset(team.At(0, offset), 0xff, size);
    ok = ok && team.FinishPhase(Patience()).code() == StatusCode::kUnavailable;
    seat = Seat();
    _exit(ok ? 0 : 1);
  }
  ~StoppingRank() {
    if (child_ > 0) Kill();
  }
  StoppingRank(const StoppingRank&) = delete;
  StoppingRank& operator=(const StoppingRank&) = delete;

  void AwaitStop() {
    int status = 0;
    ASSERT_EQ(waitpid(child_, &status, WUNTRACED), child_);
    ASSERT_TRUE(WIFSTOPPED(status));
  }
  // Returns when it has ended, with the result that is right.
  void GoOn() {
    int status = 0;
    kill(child_, SIGCONT);
    ASSERT_EQ(waitpid(child_, &status, 0), child_);
    EXPECT_EQ(status, 0) << "it should have been told that rank 0 gave up";
    child_ = -1;
  }
  void Kill() {
    kill(child_, SIGKILL);
    EXPECT_EQ(waitpid(child_, nullptr, 0), child_);
    child_ = -1;
  }

 private:
  pid_t child_ = -1;
};

// The arena of rank 0, most of it taken by the tensor that rank 1 writes to.
class StoppedPeerTest : public testing::Test {
 protected:
  static constexpr size_t kSize = size_t{40} << 20;

  StoppedPeerTest() : names_(NewArenaNames(2)) {}
  ~StoppedPeerTest() override {
    for (const std::string& name : names_) SharedSegment::Sweep(name);
  }

  // Fails because rank 1 is stopped; returns the arena. Its tensor is released.
  void FailWithAStoppedPeer() {
    // The first block of a new arena lies behind the control area.
    const uint64_t offset = tensor::ArenaOptions().control_bytes;
    peer_ = std::make_unique<StoppingRank>(names_, offset, kSize);
    Seat seat = TakeSeat(0, names_);
    auto recv = seat.arena->Allocate(kSize);
    ASSERT_TRUE(recv.ok()) << recv.status();
    ASSERT_EQ(seat.arena->OffsetOf((*recv)->data()), offset);
    arena_ = seat.arena;
    seat.team->Expose((*recv)->data());
    ASSERT_TRUE(Meet(*seat.team, 1).ok());
    peer_->AwaitStop();
    const auto begin = Deadline::Clock::now();
    const Status status = seat.team->FinishPhase(Deadline::After(milliseconds(1)));
    EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status;
    EXPECT_LT(Deadline::Clock::now() - begin, seconds(5))
        << "a rank that is stopped holds no other up";
    EXPECT_TRUE(seat.team->WasAbandonedWriting());
    // Team and tensor go; the memory stays.
  }

  const std::vector<std::string> names_;
  std::unique_ptr<StoppingRank> peer_;
  std::shared_ptr<tensor::Arena> arena_;
};

TEST_F(StoppedPeerTest, WhatItWritesLaterHitsNobodysTensor) {
  ASSERT_NO_FATAL_FAILURE(FailWithAStoppedPeer());
  EXPECT_EQ(arena_->Allocate(kSize).status().code(), StatusCode::kResourceExhausted);
  const auto other = arena_->Allocate(size_t{8} << 20);
  ASSERT_TRUE(other.ok()) << other.status();
  std::memset((*other)->data(), 1, (*other)->size_bytes());
  ASSERT_NO_FATAL_FAILURE(peer_->GoOn());
  const auto* bytes = static_cast<const char*>((*other)->data());
  for (size_t i = 0; i < (*other)->size_bytes(); ++i) ASSERT_EQ(bytes[i], 1) << i;
  // It is through, so the memory is free.
  EXPECT_TRUE(arena_->Allocate(kSize).ok());
}

TEST_F(StoppedPeerTest, TheMemoryIsFreeWhenItsProcessHasEnded) {
  ASSERT_NO_FATAL_FAILURE(FailWithAStoppedPeer());
  EXPECT_EQ(arena_->Allocate(kSize).status().code(), StatusCode::kResourceExhausted);
  peer_->Kill();
  EXPECT_TRUE(arena_->Allocate(kSize).ok());
}

}  // namespace
}  // namespace lockstep::collective::shm
