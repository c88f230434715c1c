// Several clients and threads at once: no deadlock, and each gets its own results.
#include <atomic>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/session_fixture.h"

namespace lockstep::testing {
namespace {

class ConcurrencyTest : public SessionFixture {};
INSTANTIATE_TEST_SUITE_P(Clusters, ConcurrencyTest, ::testing::ValuesIn(AllKinds()), NameOf);

// Collectives over the world, groups and teams, in an order of the client's own.
void RunClient(Session& session, unsigned seed, int rounds, std::atomic<int>* wrong) {
  std::mt19937 random(seed);
  const DRef full = *session.GetFunction("lockstep.full");
  const DRef rank = *session.Call(*session.GetFunction("lockstep.worker_rank"));
  const DRef tensor = *session.Call(full, Shape{100}, rank, DType::kFloat32);
  for (int i = 0; i < rounds; ++i) {
    CollectiveOptions options;
    float expected = 6;
    switch (random() % 3) {
      case 0:
        options.in_group = true;
        expected = 5;  // ranks 2 and 3
        break;
      case 1:
        options.team = {3, 1};
        expected = 4;
        break;
      default:
        break;
    }
    const StatusOr<DRef> sum = session.AllReduce(tensor, Reduction::kSum, options);
    if (!sum.ok()) {
      ++*wrong;
      continue;
    }
    if (random() % 4 != 0) continue;
    const StatusOr<Value> value = session.DebugGet(*sum, 3);
    if (!value.ok() ||
        *value->As<HostTensor>()->Elements<float>() != std::vector<float>(100, expected)) {
      ++*wrong;
    }
  }
  if (!session.SyncAll().ok()) ++*wrong;
}

TEST_P(ConcurrencyTest, TwoClientsInterleaveCollectives) {
  std::atomic<int> wrong{0};
  std::vector<Session> sessions;
  for (int i = 0; i < 2; ++i) sessions.push_back(Open(SharedCluster(GetParam())));
  std::vector<std::thread> clients;
  for (unsigned i = 0; i < sessions.size(); ++i) {
    clients.emplace_back([&, i] { RunClient(sessions[i], i, 150, &wrong); });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(ConcurrencyTest, ManyClientsComeAndGo) {
  constexpr int kClients = 6;
  std::atomic<int> wrong{0};
  std::vector<std::thread> clients;
  for (unsigned i = 0; i < kClients; ++i) {
    clients.emplace_back([&, i] {
      for (int round = 0; round < 3; ++round) {
        StatusOr<Session> session = SharedCluster(GetParam()).Connect(Options());
        if (!session.ok()) {
          ++wrong;
          continue;
        }
        RunClient(*session, i, 10, &wrong);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(ConcurrencyTest, ThreadsShareOneSession) {
  constexpr int kThreads = 6;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { RunClient(*session_, i, 40, &wrong); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(ConcurrencyTest, ThreadsOfOneSessionUseEveryKindOfWait) {
  std::atomic<int> wrong{0};
  const DRef identity = Function("lockstep.identity");
  const auto run = [&](auto body) {
    return std::thread([&wrong, body] {
      for (int i = 0; i < 40; ++i) {
        if (!body(i)) ++wrong;
      }
    });
  };
  std::vector<std::thread> threads;
  threads.push_back(run([&](int) { return session_->SyncAll().ok(); }));
  threads.push_back(run([&](int i) { return session_->Sync(i % kWorkers).ok(); }));
  threads.push_back(run([&](int i) {
    const StatusOr<DRef> ref = session_->Call(identity, i);
    return ref.ok() && *session_->DebugGet(*ref, i % kWorkers) == Value(i);
  }));
  threads.push_back(run([&](int i) {
    const HostTensor tensor = HostTensor::Of<int32_t>({1}, {{i}});
    const StatusOr<DRef> ref = session_->CopyToWorker0(tensor);
    return ref.ok() && *session_->CopyFromWorker0(*ref) == tensor;
  }));
  threads.push_back(run([&](int) { return session_->Barrier().ok() && session_->Flush().ok(); }));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(ConcurrencyTest, DRefsAreDroppedByOtherThreads) {
  const DRef identity = Function("lockstep.identity");
  for (int round = 0; round < 10; ++round) {
    std::vector<DRef> refs;
    for (int i = 0; i < 50; ++i) refs.push_back(Unwrap(session_->Call(identity, i)));
    std::thread dropper([mine = std::move(refs)]() mutable { mine.clear(); });
    EXPECT_OK(session_->SyncAll());
    dropper.join();
  }
  EXPECT_OK(session_->SyncAll());
}

}  // namespace
}  // namespace lockstep::testing
