// Ranks that do not come, ranks that end, and ranks that are told to give up.
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/conformance/conformance_test.h"

namespace lockstep::collective {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using FailuresTest = ConformanceTest;
INSTANTIATE_TEST_SUITE_P(Backends, FailuresTest, testing::ValuesIn(Cases(/*of_failures=*/true)),
                         NameOfCase);

TEST_P(FailuresTest, AMissingRankIsNamedAtTheDeadline) {
  if (size() < 2) GTEST_SKIP() << "there is no rank to miss";
  OnEveryRank([](RankUnderTest& self) {
    std::vector<Rank> all;
    for (Rank r = 0; r < self.size(); ++r) all.push_back(r);
    auto comm = self.comm.Split(all, 1, Patience());
    ASSERT_TRUE(comm.ok()) << comm.status();
    if (self.rank() != self.size() - 1) {
      const Status status = (*comm)->Barrier(Deadline::After(milliseconds(100)));
      EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status;
      EXPECT_NE(Message(status).find("rank " + std::to_string(self.size() - 1)), std::string::npos)
          << status;
    }
    EXPECT_TRUE(self.comm.Barrier(Patience()).ok());
  });
}

TEST_P(FailuresTest, AnAbortWakesASleeperAtOnce) {
  if (size() < 2) GTEST_SKIP() << "one rank never waits";
  OnEveryRank([](RankUnderTest& self) {
    std::vector<Rank> all;
    for (Rank r = 0; r < self.size(); ++r) all.push_back(r);
    const std::vector<int64_t> ones(all.size(), 1);
    std::vector<float> in(all.size());
    std::vector<float> out(all.size());
    const auto exchange = [&](Communicator& comm) {
      return comm.AllToAll(ViewOf(in.data(), in.size()), ones, ViewOf(out.data(), out.size()), ones,
                           Patience());
    };
    // One at a time: a rank may hear that another was aborted before it is aborted itself.
    for (Rank sleeper = 0; sleeper < self.size() - 1; ++sleeper) {
      for (const bool exchanges : {false, true}) {
        const uint64_t tag = 2 * static_cast<uint64_t>(sleeper) + (exchanges ? 1 : 0);
        auto comm = self.comm.Split(all, tag, Patience());
        ASSERT_TRUE(comm.ok()) << comm.status();
        if (self.rank() == sleeper) {
          // Long enough for the waiter to fall asleep, mostly; right either way.
          std::thread aborter([&] {
            std::this_thread::sleep_for(milliseconds(30));
            (*comm)->Abort(Internal("the disk is on fire"));
          });
          const auto begin = Deadline::Clock::now();
          const Status status = exchanges ? exchange(**comm) : (*comm)->Barrier(Patience());
          EXPECT_LT(Deadline::Clock::now() - begin, seconds(30)) << "the deadline woke it";
          aborter.join();
          EXPECT_EQ(status.code(), StatusCode::kAborted) << status;
          EXPECT_NE(Message(status).find("the disk is on fire"), std::string::npos) << status;
          (*comm)->Abort(Internal("a later cause"));
          EXPECT_EQ((*comm)->Barrier(Patience()), status);
        }
        EXPECT_TRUE(self.comm.Barrier(Patience()).ok());
      }
    }
  });
}

// Over two levels: of a rank's two messages one goes inside of its node, one across.
TEST_P(FailuresTest, AMessageThatFailsEndsTheOneBesideIt) {
  if (GetParam().backend.name.rfind("two_level", 0) != 0 || size() < 3) {
    GTEST_SKIP() << "both messages go the same way";
  }
  OnEveryRank([](RankUnderTest& self) {
    std::vector<Rank> all;
    for (Rank r = 0; r < self.size(); ++r) all.push_back(r);
    std::vector<float> sent(100);
    std::vector<float> received(101);
    std::vector<float> large(1'000'000);
    for (const bool fails_inside : {false, true}) {
      auto comm = self.comm.Split(all, fails_inside ? 1 : 0, Patience());
      ASSERT_TRUE(comm.ok()) << comm.status();
      const Rank sender = fails_inside ? 2 : 1;
      const Rank absent = fails_inside ? 1 : 2;
      const Buffer expected = ViewOf(received.data(), received.size());
      const auto begin = Deadline::Clock::now();
      Status status;
      if (self.rank() == 0) {
        status = (*comm)->SendRecv(ViewOf(large.data(), large.size()), absent, expected, sender,
                                   Patience());
      } else if (self.rank() == sender) {
        status = (*comm)->Send(ViewOf(sent.data(), sent.size()), 0, Patience());
      }
      EXPECT_LT(Deadline::Clock::now() - begin, seconds(30)) << "it waited for the other message";
      if (self.rank() == 0 || self.rank() == sender) {
        EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
        EXPECT_NE(Message(status).find("sends 100 float32 to rank 0"), std::string::npos) << status;
        EXPECT_EQ((*comm)->Barrier(Patience()), status);
      }
      EXPECT_TRUE(self.comm.Barrier(Patience()).ok());
    }
  });
}

TEST_P(FailuresTest, ASplitThatNobodyJoinsCanBeCancelled) {
  if (size() < 2) GTEST_SKIP() << "one rank never waits";
  OnEveryRank([](RankUnderTest& self) {
    if (self.rank() == 0) {
      std::atomic<bool> cancelled{false};
      std::thread canceller([&] { cancelled = true; });
      const std::vector<Rank> pair = {0, 1};
      const auto comm = self.comm.Split(pair, 1, Patience(), &cancelled);
      canceller.join();
      EXPECT_EQ(comm.status().code(), StatusCode::kAborted) << comm.status();
    }
    EXPECT_TRUE(self.comm.Barrier(Patience()).ok());
  });
}

TEST_P(FailuresTest, ASplitThatNobodyJoinsLeavesNothingBehind) {
  if (size() < 2) GTEST_SKIP() << "one rank never waits";
  OnEveryRank([attempts = static_cast<uint64_t>(splits()) * 3 / 2](RankUnderTest& self) {
    std::vector<Rank> all;
    for (Rank r = 0; r < self.size(); ++r) all.push_back(r);
    const std::atomic<bool> cancelled{true};
    for (uint64_t tag = 1; tag <= attempts && self.rank() != self.size() - 1; ++tag) {
      const auto comm = self.comm.Split(all, tag, Patience(), &cancelled);
      ASSERT_EQ(comm.status().code(), StatusCode::kAborted) << comm.status();
    }
    ASSERT_TRUE(self.comm.Barrier(Patience()).ok());
    const auto comm = self.comm.Split(all, attempts + 1, Patience());
    EXPECT_TRUE(comm.ok()) << comm.status();
  });
}

TEST_P(FailuresTest, ARankThatClosedIsNotWaitedFor) {
  if (size() < 2) GTEST_SKIP() << "there is no rank to wait for";
  OnEveryRank([](RankUnderTest& self) {
    std::vector<Rank> all;
    for (Rank r = 0; r < self.size(); ++r) all.push_back(r);
    auto comm = self.comm.Split(all, 1, Patience());
    ASSERT_TRUE(comm.ok()) << comm.status();
    if (self.rank() == self.size() - 1) {
      comm->reset();
    } else {
      const Status status = (*comm)->Barrier(Patience());
      EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
    }
    EXPECT_TRUE(self.comm.Barrier(Patience()).ok());
  });
}

TEST_P(FailuresTest, AKilledRankIsNamedWithinTwoSeconds) {
  if (!notices_death()) GTEST_SKIP() << "its ranks cannot be killed, or never look";
  for (const size_t count : {size_t{1}, size_t{3} << 20}) {
    OnEveryRank([count](RankUnderTest& self) {
      TestBuffer data(&self.allocator, DType::kFloat32, count);
      const auto reduce = [&] {
        return self.comm.AllReduce(data.buffer(), data.buffer(), ReduceOp::kSum, Patience());
      };
      // Wherever the others are just then, between operations or in the middle of one.
      std::thread killer;
      if (self.rank() == 1) {
        killer = std::thread([] {
          std::this_thread::sleep_for(milliseconds(20));
          raise(SIGKILL);
        });
      }
      Status status;
      auto begin = Deadline::Clock::now();
      while (status.ok()) {
        begin = Deadline::Clock::now();
        status = reduce();
      }
      EXPECT_LT(Deadline::Clock::now() - begin, seconds(2));
      EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
      // Also where another survivor gave up first: what ended is the cause.
      EXPECT_NE(Message(status).find("rank 1 ended"), std::string::npos) << status;
      if (killer.joinable()) killer.join();
    });
  }
}

// Returns when the process has ended, though its exit code has not been asked for yet.
void AwaitEnd(pid_t process) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  if (fd < 0 && errno == ESRCH) return;  // it has been asked for meanwhile
  ASSERT_GE(fd, 0) << std::strerror(errno);
  pollfd poll_fd = {.fd = fd, .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&poll_fd, 1, Patience().RemainingMillis()), 1);
  close(fd);
}

// The deadline is shorter than the time after which ranks first look who lives.
TEST_P(FailuresTest, AKilledRankIsNamedHoweverShortTheDeadlineIs) {
  if (!ranks_are_processes() || dies_together() || GetParam().size == 1) {
    GTEST_SKIP() << "its ranks cannot be killed one by one";
  }
  OnEveryRank([](RankUnderTest& self) {
    int64_t process = getpid();
    std::vector<int64_t> processes(static_cast<size_t>(self.size()));
    const std::vector<int64_t> counts(processes.size(), 1);
    ASSERT_TRUE(self.comm
                    .AllGather(ViewOf(&process, 1), ViewOf(processes.data(), processes.size()),
                               counts, Patience())
                    .ok());
    if (self.rank() == 1) raise(SIGKILL);
    AwaitEnd(static_cast<pid_t>(processes[1]));
    const Status status = self.comm.Barrier(Deadline::After(milliseconds(100)));
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
    EXPECT_NE(Message(status).find("rank 1 ended"), std::string::npos) << status;
  });
}

TEST_P(FailuresTest, WrongArgumentsAreRefusedBeforeAnybodyIsTold) {
  OnEveryRank([](RankUnderTest& self) {
    float data[4] = {};
    const Buffer four = ViewOf(data, 4);
    const std::vector<int64_t> ones(static_cast<size_t>(self.size()), 1);
    const auto is_invalid = [](const Status& status) {
      return status.code() == StatusCode::kInvalidArgument;
    };
    EXPECT_TRUE(is_invalid(self.comm.Broadcast(four, four, self.size(), Patience())));
    EXPECT_TRUE(is_invalid(self.comm.Broadcast(four, four, -1, Patience())));
    EXPECT_TRUE(is_invalid(self.comm.AllReduce(four, ViewOf(data, 3), ReduceOp::kSum, Patience())));
    EXPECT_TRUE(is_invalid(self.comm.Send(four, self.rank(), Patience())));
    EXPECT_TRUE(is_invalid(self.comm.Recv(four, self.size(), Patience())));
    EXPECT_TRUE(is_invalid(self.comm.AllGather(four, four, {}, Patience())));
    EXPECT_TRUE(is_invalid(
        self.comm.AllReduce(ViewOf(data, 2), ViewOf(data + 1, 2), ReduceOp::kSum, Patience())));
    EXPECT_TRUE(is_invalid(
        self.comm.AllReduce({nullptr, 4, DType::kFloat32}, four, ReduceOp::kSum, Patience())));
    EXPECT_TRUE(self.comm.Barrier(Patience()).ok());
  });
}

}  // namespace
}  // namespace lockstep::collective
