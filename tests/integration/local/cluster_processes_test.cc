#include "services/local/cluster_processes.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include "runtime/base/descriptor_limit.h"
#include "runtime/client/admin.h"
#include "runtime/client/session.h"
#include "tests/integration/process_watch.h"
#include "tests/support/files.h"

namespace lockstep::local {
namespace {

using namespace std::chrono_literals;
using support::ScopedTmpDir;
using testing::AllGone;
using testing::NoneExists;
using testing::SegmentsOf;
using testing::Suspend;

class ClusterProcessesTest : public ::testing::Test {
 protected:
  ClusterProcessesOptions Options(std::vector<std::string> assignments) {
    assignments.push_back("worker.arena_bytes=64MiB");
    const auto cluster = local::LoadCluster({"", assignments});
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    ClusterProcessesOptions options;
    options.cluster = *cluster;
    options.directory = tmp_.path();
    return options;
  }

  static std::vector<pid_t> AllPids(const ClusterProcesses& cluster) {
    std::vector<pid_t> pids = cluster.worker_pids();
    pids.push_back(cluster.controller_pid());
    return pids;
  }

  static Status Sync(const std::string& endpoint) {
    SessionOptions options;
    options.endpoint = endpoint;
    options.timeout = 20s;
    LOCKSTEP_ASSIGN_OR_RETURN(Session session, Session::Connect(options));
    return session.SyncAll();
  }

  support::ScopedTmpDir tmp_;
};

TEST_F(ClusterProcessesTest, IsReadyWhenItStartsAndGoneWhenItStops) {
  auto cluster = ClusterProcesses::Start(Options({"workers=3", "cluster=demo"}));
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const std::vector<pid_t> pids = AllPids(**cluster);
  const auto status = GetClusterStatus((*cluster)->endpoint(), 5s);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_TRUE(status->IsReady());
  EXPECT_EQ(status->cluster, "demo");
  EXPECT_EQ(status->controller_pid, (*cluster)->controller_pid());
  ASSERT_EQ(status->workers.size(), 3u);
  std::set<std::string> segments;
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(status->workers[rank].pid, pids[rank]);
    segments.merge(SegmentsOf(pids[rank]));
  }
  EXPECT_EQ(segments.size(), 6u) << "an arena and a page of activity for each worker";
  EXPECT_TRUE(Sync((*cluster)->endpoint()).ok());
  EXPECT_EQ((*cluster)->WaitForEnd(Deadline::After(0s)).code(), StatusCode::kDeadlineExceeded);

  const Status stopped = (*cluster)->Stop("the test ends");
  EXPECT_TRUE(stopped.ok()) << stopped;
  EXPECT_TRUE((*cluster)->Stop("again").ok());
  EXPECT_TRUE(AllGone(pids, Deadline::After(0s)));
  EXPECT_TRUE(NoneExists(segments));
}

TEST_F(ClusterProcessesTest, MayOpenMoreThanTheSoftLimitOfWhoStartsIt) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low{512, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const auto cluster = ClusterProcesses::Start(Options({"workers=1"}));
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  for (const pid_t pid : AllPids(**cluster)) {
    rlimit limit{};
    ASSERT_EQ(prlimit(pid, RLIMIT_NOFILE, nullptr, &limit), 0);
    EXPECT_EQ(limit.rlim_cur, RaisedDescriptorLimit(512, before.rlim_max));
  }
}

TEST_F(ClusterProcessesTest, ListensOnAnyFreePort) {
  auto cluster =
      ClusterProcesses::Start(Options({"workers=2", "controller.client_endpoint=tcp://127.0.0.1:*",
                                       "controller.worker_endpoint=tcp://127.0.0.1:*",
                                       "controller.liveness_endpoint=tcp://127.0.0.1:*",
                                       "worker.bulk_endpoint=tcp://127.0.0.1:*"}));
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ((*cluster)->endpoint().rfind("tcp://", 0), 0u) << (*cluster)->endpoint();
  const Status synced = Sync((*cluster)->endpoint());
  EXPECT_TRUE(synced.ok()) << synced;
  EXPECT_TRUE((*cluster)->Stop("the test ends").ok());
}

TEST_F(ClusterProcessesTest, AProcessThatEndsIsReportedOnceWithItsLog) {
  auto cluster = ClusterProcesses::Start(Options({"workers=2"}));
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const std::vector<pid_t> pids = AllPids(**cluster);
  ASSERT_EQ(kill(pids[1], SIGKILL), 0);
  const Status end = (*cluster)->WaitForEnd(Deadline::After(10s));
  EXPECT_EQ(end.code(), StatusCode::kUnavailable) << end;
  EXPECT_NE(Message(end).find("worker-1"), std::string::npos) << end;
  EXPECT_NE(Message(end).find("signal 9"), std::string::npos) << end;
  EXPECT_NE(Message(end).find("the end of its log"), std::string::npos) << end;
  EXPECT_EQ((*cluster)->WaitForEnd(Deadline::After(0s)).code(), StatusCode::kDeadlineExceeded)
      << "the controller and the other worker live on";
  const Status stopped = (*cluster)->Stop("the test ends");
  EXPECT_TRUE(stopped.ok()) << stopped;
  EXPECT_TRUE(AllGone(pids, Deadline::After(0s)));
}

TEST_F(ClusterProcessesTest, AShutdownByAnybodyIsAnEndInOrder) {
  auto cluster = ClusterProcesses::Start(Options({"workers=2"}));
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_TRUE(ShutdownCluster((*cluster)->endpoint(), "the test asks", 10s).ok());
  const Status end = (*cluster)->WaitForEnd(Deadline::After(10s));
  EXPECT_TRUE(end.ok()) << end;
}

TEST_F(ClusterProcessesTest, AWorkerThatStopsAloneIsReported) {
  auto cluster = ClusterProcesses::Start(Options({"workers=2"}));
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  ASSERT_EQ(kill((*cluster)->worker_pids()[1], SIGTERM), 0);
  const Status end = (*cluster)->WaitForEnd(Deadline::After(10s));
  EXPECT_EQ(end.code(), StatusCode::kUnavailable) << end;
  EXPECT_NE(Message(end).find("worker-1"), std::string::npos) << end;
}

TEST_F(ClusterProcessesTest, AWaitCanBeCancelled) {
  auto cluster = ClusterProcesses::Start(Options({"workers=1"}));
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const int cancel = eventfd(1, EFD_CLOEXEC);
  EXPECT_EQ((*cluster)->WaitForEnd(Deadline::After(60s), cancel).code(), StatusCode::kCancelled);
  close(cancel);
}

TEST_F(ClusterProcessesTest, AStartCanBeCancelled) {
  ClusterProcessesOptions options = Options({"workers=2"});
  options.worker_program = tmp_.path() + "/hang";
  std::ofstream(options.worker_program) << "#!/bin/sh\n"
                                           "echo $$ > \"$0.$$\"\n"
                                           "exec sleep 600\n";
  std::filesystem::permissions(options.worker_program, std::filesystem::perms::owner_all);
  options.start_timeout = 600s;
  const int cancel = eventfd(1, EFD_CLOEXEC);
  const Deadline soon = Deadline::After(60s);
  const Status status = ClusterProcesses::Start(options, cancel).status();
  EXPECT_FALSE(soon.Expired());
  EXPECT_EQ(status.code(), StatusCode::kCancelled) << status;
  std::vector<pid_t> pids;
  for (const auto& entry : std::filesystem::directory_iterator(tmp_.path())) {
    if (!entry.path().filename().string().starts_with("hang.")) continue;
    pids.push_back(std::stoi(entry.path().extension().string().substr(1)));
  }
  EXPECT_TRUE(AllGone(pids, Deadline::After(0s)));
  close(cancel);
}

TEST_F(ClusterProcessesTest, AWorkerThatCannotStartIsReportedAtOnce) {
  ClusterProcessesOptions options = Options({"workers=2"});
  options.worker_program = "/bin/false";
  options.start_timeout = 60s;
  const Deadline soon = Deadline::After(30s);
  const Status status = ClusterProcesses::Start(options).status();
  EXPECT_FALSE(soon.Expired());
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_NE(Message(status).find("ended with exit code 1"), std::string::npos) << status;
}

TEST_F(ClusterProcessesTest, ProgramsThatDoNotExistAreNamed) {
  ClusterProcessesOptions options = Options({"workers=1"});
  options.controller_program = "/nonexistent/controller";
  EXPECT_EQ(ClusterProcesses::Start(options).status().code(), StatusCode::kNotFound);
  options.controller_program.clear();
  options.worker_program = "/nonexistent/worker";
  EXPECT_EQ(ClusterProcesses::Start(options).status().code(), StatusCode::kNotFound);
}

TEST_F(ClusterProcessesTest, ADirectoryThatIsTooLongForSocketsIsRefused) {
  ClusterProcessesOptions options = Options({"workers=1"});
  options.directory += "/" + std::string(100, 'x');
  std::filesystem::create_directory(options.directory);
  const Status status = ClusterProcesses::Start(options).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  EXPECT_NE(Message(status).find("107"), std::string::npos) << status;
}

TEST_F(ClusterProcessesTest, ADetachedClusterRunsUntilItIsShutDown) {
  ClusterProcessesOptions options = Options({"workers=2"});
  options.detached = true;
  std::vector<pid_t> pids;
  std::string endpoint;
  {
    auto cluster = ClusterProcesses::Start(options);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    pids = AllPids(**cluster);
    endpoint = (*cluster)->endpoint();
    (*cluster)->Release();
  }
  EXPECT_TRUE(Sync(endpoint).ok());
  const Status shut_down = ShutdownCluster(endpoint, "the test ends", 10s);
  EXPECT_TRUE(shut_down.ok()) << shut_down;
  EXPECT_TRUE(AllGone(pids, Deadline::After(10s)));
}

TEST_F(ClusterProcessesTest, AStoppedControllerProcessIsKilled) {
  auto cluster = ClusterProcesses::Start(Options({"workers=1"}));
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const std::vector<pid_t> pids = AllPids(**cluster);
  Suspend((*cluster)->controller_pid());
  const Status stopped = (*cluster)->Stop("the test ends");
  EXPECT_NE(Message(stopped).find("controller"), std::string::npos) << stopped;
  EXPECT_TRUE(AllGone(pids, Deadline::After(0s)));
}

}  // namespace
}  // namespace lockstep::local
