#include "services/local/local_cluster.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>

#include "runtime/base/child_process.h"
#include "runtime/base/sanitizers.h"
#include "tests/integration/process_watch.h"
#include "tests/support/files.h"

namespace lockstep::local {
namespace {

using namespace std::chrono_literals;
using support::ScopedTmpDir;
using testing::AllGone;
using testing::NoneExists;
using testing::SegmentsOf;

using Mode = LocalClusterOptions::Mode;

LocalClusterOptions Options(Mode mode, int workers) {
  LocalClusterOptions options;
  options.workers = workers;
  options.mode = mode;
  options.arena_bytes = size_t{64} << 20;
  return options;
}

class LocalClusterTest : public ::testing::TestWithParam<Mode> {
 protected:
  support::ScopedTmpDir tmp_;
};

TEST_P(LocalClusterTest, StartsSyncsAndStopsLeavingNothing) {
  auto cluster = LocalCluster::Start(Options(GetParam(), 3));
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const std::vector<pid_t> pids = (*cluster)->worker_pids();
  EXPECT_EQ(pids.size(), GetParam() == Mode::kProcesses ? 3u : 0u);

  std::set<std::string> segments = SegmentsOf(0);
  for (pid_t pid : pids) segments.merge(SegmentsOf(pid));
  EXPECT_EQ(segments.size(), 6u) << "an arena and a page of activity for each worker";
  {
    auto session = (*cluster)->Connect();
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_EQ(session->num_workers(), 3);
    const Status synced = session->SyncAll();
    EXPECT_TRUE(synced.ok()) << synced;
    if (GetParam() == Mode::kProcesses) {
      for (const WorkerInfo& worker : session->workers()) {
        EXPECT_EQ(worker.pid, pids[worker.rank]) << "process ids are in rank order";
      }
    }
  }
  const Status stopped = (*cluster)->Stop();
  EXPECT_TRUE(stopped.ok()) << stopped;
  EXPECT_TRUE((*cluster)->Stop().ok()) << "a second stop does nothing";
  EXPECT_EQ((*cluster)->Connect().status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(AllGone(pids, Deadline::After(0s)));
  EXPECT_TRUE(NoneExists(segments));
  EXPECT_TRUE(tmp_.IsEmpty());
}

TEST_P(LocalClusterTest, TwoClustersLiveSideBySideAndOneAfterTheOther) {
  for (int round = 0; round < 2; ++round) {
    auto a = LocalCluster::Start(Options(GetParam(), 2));
    auto b = LocalCluster::Start(Options(GetParam(), 1));
    ASSERT_TRUE(a.ok()) << a.status();
    ASSERT_TRUE(b.ok()) << b.status();
    EXPECT_NE((*a)->endpoint(), (*b)->endpoint());
    auto session_a = (*a)->Connect();
    auto session_b = (*b)->Connect();
    ASSERT_TRUE(session_a.ok()) << session_a.status();
    ASSERT_TRUE(session_b.ok()) << session_b.status();
    EXPECT_EQ(session_a->num_workers(), 2);
    EXPECT_EQ(session_b->num_workers(), 1);
    EXPECT_TRUE(session_a->SyncAll().ok());
    EXPECT_TRUE(session_b->SyncAll().ok());
  }
  EXPECT_TRUE(tmp_.IsEmpty());
}

TEST_P(LocalClusterTest, ItsTimelineIsRecorded) {
  auto cluster = LocalCluster::Start(Options(GetParam(), 2));
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  auto session = (*cluster)->Connect();
  ASSERT_TRUE(session.ok()) << session.status();
  const Status started = session->StartTrace();
  ASSERT_TRUE(started.ok()) << started;
  EXPECT_TRUE(session->SyncAll().ok());
  const auto trace = session->StopTrace();
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->processes.size(), 4u) << "the client, the controller, and two workers";
  for (const TraceProcess& process : trace->processes) EXPECT_EQ(process.missing, "");
}

TEST_P(LocalClusterTest, ATimelineOfAClusterThatHasStoppedSaysSo) {
  auto cluster = LocalCluster::Start(Options(GetParam(), 1));
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  auto session = (*cluster)->Connect();
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_EQ(session->StartTrace(), OkStatus());
  EXPECT_EQ((*cluster)->Stop(), OkStatus());
  const Status status = session->StopTrace().status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(Message(status).find("shutting down"), std::string::npos) << status;
}

TEST_P(LocalClusterTest, ASessionHasNoMoreBytesThanTheOptionsSay) {
  LocalClusterOptions options = Options(GetParam(), 1);
  options.max_session_bytes = 1000;
  auto cluster = LocalCluster::Start(options);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  auto session = (*cluster)->Connect();
  ASSERT_TRUE(session.ok()) << session.status();
  const auto fits = session->Empty({1000}, DType::kUInt8);
  EXPECT_TRUE(session->SyncAll().ok());
  const auto too_much = session->Empty({1}, DType::kUInt8);
  EXPECT_NE(Message(session->SyncAll()).find("max_session_bytes"), std::string::npos);
}

TEST_P(LocalClusterTest, DestructionStopsIt) {
  std::vector<pid_t> pids;
  {
    auto cluster = LocalCluster::Start(Options(GetParam(), 2));
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    pids = (*cluster)->worker_pids();
  }
  EXPECT_TRUE(AllGone(pids, Deadline::After(0s)));
  EXPECT_TRUE(tmp_.IsEmpty());
}

TEST_P(LocalClusterTest, WorkersThatCannotBeAreRefused) {
  for (int workers : {0, -1, 5000}) {
    const Status status = LocalCluster::Start(Options(GetParam(), workers)).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << workers;
  }
}

TEST_P(LocalClusterTest, HealthyWorkerIsReplaced) {
  auto cluster = LocalCluster::Start(Options(GetParam(), 2));
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  auto session = (*cluster)->Connect();
  ASSERT_TRUE(session.ok()) << session.status();
  for (int round = 0; round < 5; ++round) {
    const Status replaced = (*cluster)->ReplaceWorker(1);
    ASSERT_TRUE(replaced.ok()) << "round " << round << ": " << replaced;
    const Status ready = session->AwaitWorkers(20s);
    ASSERT_TRUE(ready.ok()) << ready;
    const Status reset = session->Reset();
    ASSERT_TRUE(reset.ok()) << reset;
    EXPECT_TRUE(session->SyncAll().ok());
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, LocalClusterTest,
                         ::testing::Values(Mode::kThreads, Mode::kProcesses), [](const auto& info) {
                           return info.param == Mode::kThreads ? "Threads" : "Processes";
                         });

class LocalProcessesTest : public ::testing::Test {
 protected:
  support::ScopedTmpDir tmp_;
};

TEST_F(LocalProcessesTest, AWorkerProgramThatDoesNotExistIsNamed) {
  LocalClusterOptions options = Options(Mode::kProcesses, 2);
  options.worker_binary = "/nonexistent/lockstep-worker";
  const Status status = LocalCluster::Start(options).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound) << status;
  EXPECT_NE(Message(status).find("/nonexistent/lockstep-worker"), std::string::npos) << status;
  EXPECT_TRUE(tmp_.IsEmpty());
}

TEST_F(LocalProcessesTest, AWorkerThatEndsAtOnceIsReportedLongBeforeTheTimeout) {
  LocalClusterOptions options = Options(Mode::kProcesses, 2);
  options.worker_binary = "/bin/false";
  options.start_timeout = 60s;
  const Deadline soon = Deadline::After(30s);
  const Status status = LocalCluster::Start(options).status();
  EXPECT_FALSE(soon.Expired());
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_NE(Message(status).find("ended with exit code 1"), std::string::npos) << status;
  EXPECT_TRUE(tmp_.IsEmpty());
}

TEST_F(LocalProcessesTest, AnErrorOfAWorkerCarriesTheEndOfItsLog) {
  const std::string program = tmp_.path() + "/worker";
  std::ofstream(program) << "#!/bin/sh\necho the reason why >&2\nexit 4\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  LocalClusterOptions options = Options(Mode::kProcesses, 1);
  options.worker_binary = program;
  const Status status = LocalCluster::Start(options).status();
  EXPECT_NE(Message(status).find("worker-0"), std::string::npos) << status;
  EXPECT_NE(Message(status).find("the reason why"), std::string::npos) << status;
}

TEST_F(LocalProcessesTest, AHundredWorkersLoseOneAndGoOn) {
  constexpr int kMany = kSanitized ? 20 : 128;
  constexpr Rank kVictim = kMany / 2 + 3;
  LocalClusterOptions options = Options(Mode::kProcesses, kMany);
  options.arena_bytes = size_t{16} << 20;
  options.start_timeout = 60s;
  auto cluster = LocalCluster::Start(options);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  auto session = (*cluster)->Connect();
  ASSERT_TRUE(session.ok()) << session.status();
  const auto sum_of_ones = [&]() -> StatusOr<float> {
    LOCKSTEP_ASSIGN_OR_RETURN(const DRef full, session->GetFunction("lockstep.full"));
    LOCKSTEP_ASSIGN_OR_RETURN(const DRef ones, session->Call(full, Shape{1}, 1.0, DType::kFloat32));
    LOCKSTEP_ASSIGN_OR_RETURN(const DRef sum, session->AllReduce(ones, Reduction::kSum));
    LOCKSTEP_ASSIGN_OR_RETURN(const Value value, session->DebugGet(sum, kVictim));
    return value.As<HostTensor>()->Elements<float>()->front();
  };
  const auto before = sum_of_ones();
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(*before, kMany);
  kill((*cluster)->worker_pids()[kVictim], SIGKILL);
  Status lost;
  for (const Deadline deadline = Deadline::After(20s); lost.ok() && !deadline.Expired();) {
    lost = session->SyncAll();
  }
  EXPECT_NE(Message(lost).find("rank " + std::to_string(kVictim)), std::string::npos) << lost;
  ASSERT_EQ((*cluster)->ReplaceWorker(kVictim), OkStatus());
  ASSERT_EQ(session->AwaitWorkers(20s), OkStatus());
  ASSERT_EQ(session->Reset(), OkStatus());
  const auto after = sum_of_ones();
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(*after, kMany);
}

TEST_F(LocalProcessesTest, ATemporaryDirectoryThatIsTooLongForSocketsIsRefused) {
  const std::string path = tmp_.path() + "/" + std::string(100, 'x');
  std::filesystem::create_directory(path);
  setenv("TMPDIR", path.c_str(), 1);
  const Status status = LocalCluster::Start(Options(Mode::kProcesses, 1)).status();
  setenv("TMPDIR", tmp_.path().c_str(), 1);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  EXPECT_NE(Message(status).find("107"), std::string::npos) << status;
}

TEST_F(LocalProcessesTest, AKilledWorkerIsNamedAndNothingOfItStays) {
  auto cluster = LocalCluster::Start(Options(Mode::kProcesses, 3));
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const std::vector<pid_t> pids = (*cluster)->worker_pids();
  std::set<std::string> segments;
  for (pid_t pid : pids) segments.merge(SegmentsOf(pid));
  SessionOptions session_options;
  session_options.timeout = 20s;
  auto session = (*cluster)->Connect(session_options);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(session->SyncAll().ok());

  ASSERT_EQ(kill(pids[1], SIGKILL), 0);
  const Status synced = session->SyncAll();
  EXPECT_FALSE(synced.ok());
  EXPECT_NE(Message(synced).find("rank 1"), std::string::npos) << synced;

  const Status stopped = (*cluster)->Stop();
  EXPECT_NE(Message(stopped).find("worker-1"), std::string::npos) << stopped;
  EXPECT_NE(Message(stopped).find("signal 9"), std::string::npos) << stopped;
  EXPECT_TRUE(AllGone(pids, Deadline::After(0s)));
  EXPECT_TRUE(NoneExists(segments));
  EXPECT_TRUE(tmp_.IsEmpty());
}

TEST_F(LocalProcessesTest, WorkersOutliveTheThreadThatStartedThem) {
  StatusOr<std::unique_ptr<LocalCluster>> cluster = Internal("not started");
  std::thread([&] { cluster = LocalCluster::Start(Options(Mode::kProcesses, 2)); }).join();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  auto session = (*cluster)->Connect();
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_TRUE(session->SyncAll().ok());
  EXPECT_TRUE((*cluster)->Stop().ok());
}

// This program again, which starts a cluster, prints its workers' process ids, and waits to be
// killed.
constexpr char kHoldFlag[] = "--hold-a-cluster";
int HoldACluster() {
  auto cluster = LocalCluster::Start(Options(Mode::kProcesses, 2));
  if (!cluster.ok()) {
    std::cout << cluster.status() << std::endl;
    return 1;
  }
  std::cout << "pids";
  for (pid_t pid : (*cluster)->worker_pids()) std::cout << ' ' << pid;
  std::cout << " end" << std::endl;
  pause();
  return 0;
}

TEST_F(LocalProcessesTest, WorkersDieWithAProgramThatIsKilled) {
  const std::string log = tmp_.path() + "/log";
  auto holder = ChildProcess::Spawn(
      {.argv = {"/proc/self/exe", kHoldFlag}, .environment = {}, .log_path = log});
  ASSERT_TRUE(holder.ok()) << holder.status();
  std::string text;
  const Deadline deadline = Deadline::After(30s);
  while (text.find("end") == std::string::npos) {
    ASSERT_FALSE(deadline.Expired()) << text;
    ASSERT_TRUE(holder->Running()) << text;
    std::ostringstream read;
    read << std::ifstream(log).rdbuf();
    text = read.str();
  }
  std::istringstream words(text.substr(text.find("pids") + 4));
  std::vector<pid_t> pids;
  for (pid_t pid; words >> pid;) pids.push_back(pid);
  ASSERT_EQ(pids.size(), 2u) << text;

  holder->Signal(SIGKILL);
  EXPECT_TRUE(holder->Wait(Deadline::After(10s)).ok());
  EXPECT_TRUE(AllGone(pids, Deadline::After(10s)));
  // No process was left to remove the directory: the next cluster does.
  EXPECT_TRUE(LocalCluster::Start(Options(Mode::kProcesses, 1)).ok());
  std::filesystem::remove(log);
  EXPECT_TRUE(tmp_.IsEmpty());
}

}  // namespace
}  // namespace lockstep::local

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == lockstep::local::kHoldFlag) {
    return lockstep::local::HoldACluster();
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
