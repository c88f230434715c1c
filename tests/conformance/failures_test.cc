// Ranks that disagree, ranks that do not come, and ranks that are told to give up.
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
LOCKSTEP_CONFORMANCE_SUITE(FailuresTest);

// Rank `odd` calls `different`, all others `usual`; every rank gets an error that shows both.
void ExpectDisagreement(RankUnderTest& self, uint64_t tag,
                        const std::function<Status(Communicator&)>& usual,
                        const std::function<Status(Communicator&)>& different,
                        const std::vector<std::string>& shown) {
  std::vector<Rank> all;
  for (Rank r = 0; r < self.size(); ++r) all.push_back(r);
  auto comm = self.comm.Split(all, tag, Patience());
  ASSERT_TRUE(comm.ok()) << comm.status();
  const bool odd = self.rank() == self.size() - 1;
  const Status status = odd ? different(**comm) : usual(**comm);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  for (const std::string& part : shown) {
    EXPECT_NE(Message(status).find(part), std::string::npos) << status << " lacks " << part;
  }
  // Unusable from now on, with the same error; the parent is as good as before.
  EXPECT_EQ((*comm)->Barrier(Patience()), status);
  EXPECT_TRUE(self.comm.Barrier(Patience()).ok());
}

TEST_P(FailuresTest, RanksThatDisagreeAreTold) {
  if (size() < 2) GTEST_SKIP() << "one rank cannot disagree with itself";
  OnEveryRank([](RankUnderTest& self) {
    std::vector<float> f(5000);
    std::vector<int32_t> n(5000);
    const auto reduce = [&](size_t count, ReduceOp op) {
      return [&f, count, op](Communicator& comm) {
        return comm.AllReduce(ViewOf(f.data(), count), ViewOf(f.data(), count), op, Patience());
      };
    };
    const auto broadcast = [&](Rank root) {
      return [&f, root](Communicator& comm) {
        return comm.Broadcast(ViewOf(f.data(), 9), ViewOf(f.data(), 9), root, Patience());
      };
    };
    const std::string last = std::to_string(self.size() - 1);
    ExpectDisagreement(self, 1, reduce(3, ReduceOp::kSum), reduce(4, ReduceOp::kSum),
                       {"allreduce sum of 3 float32", "allreduce sum of 4 float32", last});
    ExpectDisagreement(self, 2, reduce(3, ReduceOp::kSum), reduce(5000, ReduceOp::kSum),
                       {"3 float32", "5000 float32"});
    ExpectDisagreement(self, 3, reduce(5, ReduceOp::kSum), reduce(5, ReduceOp::kMax),
                       {"sum", "max"});
    ExpectDisagreement(self, 4, reduce(5, ReduceOp::kSum),
                       [&](Communicator& comm) {
                         return comm.AllReduce(ViewOf(n.data(), 5), ViewOf(n.data(), 5),
                                               ReduceOp::kSum, Patience());
                       },
                       {"float32", "int32"});
    ExpectDisagreement(self, 5, broadcast(0), broadcast(self.size() - 1),
                       {"from rank 0", "from rank " + last});
    ExpectDisagreement(self, 6, reduce(5, ReduceOp::kSum),
                       [](Communicator& comm) { return comm.Barrier(Patience()); },
                       {"allreduce", "barrier"});
  });
}

TEST_P(FailuresTest, RanksThatDisagreeAboutPartsAreTold) {
  if (size() < 2) GTEST_SKIP() << "one rank cannot disagree with itself";
  OnEveryRank([](RankUnderTest& self) {
    const auto size = static_cast<size_t>(self.size());
    std::vector<int32_t> in(2 * size);
    std::vector<int32_t> out(2 * size);
    // The totals are equal; whose part is the longer one is not.
    const auto gather = [&](size_t longer) {
      return [&, longer](Communicator& comm) {
        std::vector<int64_t> counts(size, 1);
        counts[longer] = 2;
        const auto mine = static_cast<size_t>(counts[static_cast<size_t>(comm.rank())]);
        return comm.AllGather(ViewOf(in.data(), mine), ViewOf(out.data(), size + 1), counts,
                              Patience());
      };
    };
    ExpectDisagreement(self, 1, gather(0), gather(size - 1), {"allgather", "parts of [2, 1", "2]"});
    const auto exchange = [&](int64_t to_first) {
      return [&, to_first](Communicator& comm) {
        const std::vector<int64_t> received(size, 1);
        std::vector<int64_t> sent(size, 1);
        sent[0] = to_first;
        return comm.AllToAll(ViewOf(in.data(), size - 1 + static_cast<size_t>(to_first)), sent,
                             ViewOf(out.data(), size), received, Patience());
      };
    };
    ExpectDisagreement(self, 2, exchange(1), exchange(2),
                       {"sends 2 elements to rank 0, which expects 1"});
  });
}

TEST_P(FailuresTest, AMessageThatDoesNotFitIsRefusedOnBothSides) {
  if (size() < 2) GTEST_SKIP() << "there is nobody to send to";
  OnEveryRank([](RankUnderTest& self) {
    std::vector<Rank> all;
    for (Rank r = 0; r < self.size(); ++r) all.push_back(r);
    auto comm = self.comm.Split(all, 1, Patience());
    ASSERT_TRUE(comm.ok()) << comm.status();
    std::vector<float> data(101);
    if (self.rank() < 2) {
      const Status status = self.rank() == 0
                                ? (*comm)->Send(ViewOf(data.data(), 100), 1, Patience())
                                : (*comm)->Recv(ViewOf(data.data(), 101), 0, Patience());
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
      EXPECT_NE(
          Message(status).find("rank 0 sends 100 float32 to rank 1, which expects 101 float32"),
          std::string::npos)
          << status;
    }
    EXPECT_TRUE(self.comm.Barrier(Patience()).ok());
  });
}

TEST_P(FailuresTest, AMissingRankIsNamedAtTheDeadline) {
  if (size() < 2) GTEST_SKIP() << "there is nobody to miss";
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
    // One at a time: a rank may hear that another was aborted before it is aborted itself.
    for (Rank sleeper = 0; sleeper < self.size() - 1; ++sleeper) {
      auto comm = self.comm.Split(all, static_cast<uint64_t>(sleeper), Patience());
      ASSERT_TRUE(comm.ok()) << comm.status();
      if (self.rank() == sleeper) {
        // Long enough for the waiter to fall asleep, mostly; right either way.
        std::thread aborter([&] {
          std::this_thread::sleep_for(milliseconds(30));
          (*comm)->Abort(Internal("the disk is on fire"));
        });
        const auto begin = Deadline::Clock::now();
        const Status status = (*comm)->Barrier(Patience());
        EXPECT_LT(Deadline::Clock::now() - begin, seconds(30)) << "the deadline woke it";
        aborter.join();
        EXPECT_EQ(status.code(), StatusCode::kAborted) << status;
        EXPECT_NE(Message(status).find("the disk is on fire"), std::string::npos) << status;
        (*comm)->Abort(Internal("a later cause"));
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
  if (size() < 2) GTEST_SKIP() << "there is nobody to wait for";
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

// Returns when the process has ended, though nobody has asked for its exit code yet.
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
  if (!ranks_are_processes() || dies_together()) {
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
