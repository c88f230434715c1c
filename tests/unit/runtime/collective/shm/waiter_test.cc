#include "runtime/collective/shm/waiter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace lockstep::collective::shm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint32_t kPeer = 3;

bool Never() { return false; }
bool NobodyIsLost(Look) { return false; }

class WaiterTest : public testing::Test {
 protected:
  // Goes to sleep at once, so that the tests are about sleeping, and sleeps until it is woken.
  static WaitPolicy SleepsAtOnce() {
    return {.spins = 0, .yield_for = microseconds(0), .look_after = std::chrono::hours(1)};
  }
  static WaitPolicy LooksOften() {
    return {.spins = 0, .yield_for = microseconds(0), .look_after = milliseconds(1)};
  }
  // Returns when the waiter has said that it waits for `whom`.
  void AwaitSleeper(uint32_t whom) {
    while (attention_.waiting_for != whom) std::this_thread::yield();
  }
  Deadline Long() { return Deadline::After(seconds(60)); }

  Attention attention_ = {};
  Waiter waiter_{SleepsAtOnce(), 2, attention_};
};

TEST_F(WaiterTest, WhatIsReadyIsNotWaitedFor) {
  EXPECT_TRUE(waiter_.Spin([] { return true; }));
  EXPECT_FALSE(waiter_.Spin(Never));
  EXPECT_EQ(waiter_.Sleep([] { return true; }, kPeer, Long(), NobodyIsLost), Outcome::kReady);
}

TEST_F(WaiterTest, ThePeerWakesTheSleeper) {
  std::atomic<bool> came{false};
  std::thread peer([&] {
    AwaitSleeper(kPeer);
    came = true;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    Waiter::Wake(attention_, kPeer);
  });
  EXPECT_EQ(waiter_.Sleep([&] { return came.load(); }, kPeer, Long(), NobodyIsLost),
            Outcome::kReady);
  peer.join();
  EXPECT_EQ(attention_.waiting_for.load(), kNoRank);
}

TEST_F(WaiterTest, OnlyTheOneWaitedForRings) {
  attention_.waiting_for = kPeer;
  Waiter::Wake(attention_, kPeer + 1);
  EXPECT_EQ(attention_.bell.load(), 0u);
  Waiter::Wake(attention_, kPeer);
  EXPECT_EQ(attention_.bell.load(), 1u);
  attention_.waiting_for = kAnyRank;
  Waiter::Wake(attention_, kPeer + 1);
  EXPECT_EQ(attention_.bell.load(), 2u);
  attention_.waiting_for = kNoRank;
  Waiter::Wake(attention_, kPeer);
  EXPECT_EQ(attention_.bell.load(), 2u);
}

TEST_F(WaiterTest, TheDeadlineEndsIt) {
  EXPECT_EQ(waiter_.Sleep(Never, kPeer, Deadline::After(milliseconds(5)), NobodyIsLost),
            Outcome::kExpired);
}

TEST_F(WaiterTest, AnAbortWakesAndItsFirstCauseStays) {
  std::thread aborter([&] {
    AwaitSleeper(kPeer);
    waiter_.Abort(Internal("first"));
    waiter_.Abort(Internal("second"));
  });
  const auto begin = Deadline::Clock::now();
  EXPECT_EQ(waiter_.Sleep(Never, kPeer, Long(), NobodyIsLost), Outcome::kAborted);
  EXPECT_LT(Deadline::Clock::now() - begin, seconds(30)) << "the deadline woke it";
  aborter.join();
  EXPECT_EQ(waiter_.cause().code(), StatusCode::kAborted);
  EXPECT_EQ(Message(waiter_.cause()), "first");
  // Every later wait too.
  EXPECT_EQ(waiter_.Sleep(Never, kPeer, Long(), NobodyIsLost), Outcome::kAborted);
}

TEST_F(WaiterTest, ASleeperLooksNowAndThenWhetherItWaitsInVain) {
  Waiter waiter(LooksOften(), 2, attention_);
  int looks = 0;
  const auto lost = [&](Look look) { return look == Look::kClosely && ++looks == 3; };
  EXPECT_EQ(waiter.Sleep(Never, kPeer, Long(), lost), Outcome::kLost);
}

TEST_F(WaiterTest, APeerThatGivesUpWakesTheSleeper) {
  std::atomic<bool> left{false};
  std::thread peer([&] {
    AwaitSleeper(kPeer);
    left = true;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    Waiter::Wake(attention_, kPeer);
  });
  const auto glance = [&](Look look) { return look == Look::kGlance && left; };
  EXPECT_EQ(waiter_.Sleep(Never, kPeer, Long(), glance), Outcome::kLost);
  peer.join();
}

// However short the deadline is, one that waited in vain says so.
TEST_F(WaiterTest, APeerThatIsLostIsLookedForBeforeTheDeadlineEndsTheWait) {
  const auto ended = [](Look look) { return look == Look::kClosely; };
  EXPECT_EQ(waiter_.Sleep(Never, kPeer, Deadline::After(milliseconds(5)), ended), Outcome::kLost);
  EXPECT_EQ(waiter_.Sleep(Never, kPeer, Deadline::After(milliseconds(0)), ended), Outcome::kLost);
  Waiter yields({.spins = 0, .yield_for = seconds(60), .look_after = seconds(60)}, 2, attention_);
  EXPECT_EQ(yields.Sleep(Never, kPeer, Deadline::After(milliseconds(5)), ended), Outcome::kLost);
}

// A peer that did its part and then left has not left other ranks waiting.
TEST_F(WaiterTest, APeerThatCameBeforeItLeftDidCome) {
  const auto outcome_of = [&](Look looked, Deadline deadline) {
    Waiter waiter(LooksOften(), 2, attention_);
    bool came = false;
    const auto leaves = [&](Look look) {
      came = came || look == looked;
      return look == looked;
    };
    return waiter.Sleep([&] { return came; }, kPeer, deadline, leaves);
  };
  EXPECT_EQ(outcome_of(Look::kGlance, Long()), Outcome::kReady);
  EXPECT_EQ(outcome_of(Look::kClosely, Long()), Outcome::kReady);
  EXPECT_EQ(outcome_of(Look::kClosely, Deadline::After(milliseconds(0))), Outcome::kReady);
}

// No wake-up is lost, whenever it comes.
TEST_F(WaiterTest, ManyRoundsOfPingPong) {
  constexpr int kRounds = 5000;
  Attention other_attention = {};
  std::atomic<int> ours{0};
  std::atomic<int> theirs{0};
  std::thread other([&] {
    Waiter waiter(SleepsAtOnce(), 2, other_attention);
    for (int i = 1; i <= kRounds; ++i) {
      EXPECT_EQ(waiter.Sleep([&] { return ours >= i; }, 1, Long(), NobodyIsLost), Outcome::kReady);
      theirs.store(i, std::memory_order_release);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      Waiter::Wake(attention_, 2);
    }
  });
  for (int i = 1; i <= kRounds; ++i) {
    ours.store(i, std::memory_order_release);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    Waiter::Wake(other_attention, 1);
    EXPECT_EQ(waiter_.Sleep([&] { return theirs >= i; }, 2, Long(), NobodyIsLost), Outcome::kReady);
  }
  other.join();
}

}  // namespace
}  // namespace lockstep::collective::shm
