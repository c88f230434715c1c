// Clusters whose workers are the processes of an MPI job.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "runtime/base/child_process.h"
#include "runtime/client/admin.h"
#include "services/worker/settings.h"
#include "tests/integration/random_plans.h"
#include "tests/integration/services_fixture.h"
#include "tests/support/mpirun.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;

class MpiTest : public ServicesFixture {
 protected:
  static constexpr int kRanks = 3;

  void SetUp() override {
    const std::string why_not = support::Mpirun::WhyNot();
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    ServicesFixture::SetUp();
    controller::ControllerOptions options;
    options.workers = kRanks;
    options.client_endpoint = IpcEndpoint("client");
    options.worker_endpoint = IpcEndpoint("worker");
    options.liveness_endpoint = IpcEndpoint("liveness");
    options.communicator = "mpi";
    StartController(options);
  }

  // Jobs and workers log to files in folders of their own, named so.
  ChildProcess StartJob(const std::string& name, int ranks, std::vector<std::string> command = {}) {
    worker::WorkerOptions options = SmallWorker(-1);
    if (ranks > 1) options.rank_from = "mpi";
    const std::vector<std::string> worker = WorkerCommand(name, options);
    command.insert(command.end(), worker.begin(), worker.end());
    return Start(support::Mpirun::Job(ranks, command, Folder(name)));
  }
  ChildProcess StartWorkerByHand(const std::string& name, Rank rank) {
    ChildOptions options = support::Mpirun::Job(1, {}, Folder(name));
    options.argv = WorkerCommand(name, SmallWorker(rank));
    return Start(options);
  }
  std::string LogOf(const std::string& name) const {
    std::ifstream file(Folder(name) + "/log");
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  StatusOr<ClusterStatus> Ask() const { return GetClusterStatus(IpcEndpoint("client"), kLong); }
  void AwaitReady() const {
    const Deadline deadline = Deadline::After(kLong);
    while (!deadline.Expired()) {
      const auto status = Ask();
      ASSERT_TRUE(status.ok()) << status.status();
      if (status->IsReady()) return;
      std::this_thread::sleep_for(20ms);
    }
    FAIL() << "the cluster is not ready";
  }
  // The job ends by itself.
  void ExpectEnd(ChildProcess& job, const std::string& name, bool well) {
    const auto end = job.Wait(Deadline::After(kLong));
    ASSERT_TRUE(end.ok()) << end.status() << "\n" << LogOf(name);
    EXPECT_EQ(end->ok(), well) << end->Describe() << "\n" << LogOf(name);
  }

  static DRef FullOfRank(Session& session, int64_t elements) {
    const DRef rank = Call(session, "lockstep.worker_rank");
    return Call(session, "lockstep.full", Shape{elements}, rank, DType::kFloat32);
  }
  template <typename... Args>
  static DRef Call(Session& session, const std::string& function, const Args&... args) {
    return Must(session.Call(Must(session.GetFunction(function)), args...));
  }
  // All elements are `expected` on the last rank.
  static void ExpectFull(Session& session, const DRef& tensor, float expected) {
    const Value value = Must(session.DebugGet(tensor, kRanks - 1));
    EXPECT_THAT(Must(value.As<HostTensor>()->Elements<float>()), Each(expected));
  }
  // Small ones, and some that go in pieces.
  static void ExpectCollectives(Session& session) {
    for (const int64_t elements : {5, 500'000}) {
      const DRef tensor = FullOfRank(session, elements);
      ExpectFull(session, Must(session.AllReduce(tensor, Reduction::kSum)), 0 + 1 + 2);
      ExpectFull(session, Must(session.Broadcast(tensor, 1)), 1);
    }
  }
  // The value, or the end of the test program: nothing that follows would make sense.
  template <typename T>
  static T Must(StatusOr<T> value) {
    if (!value.ok()) {
      ADD_FAILURE() << value.status();
      std::abort();
    }
    return *std::move(value);
  }

 private:
  std::string Folder(const std::string& name) const { return directory_->path() + "/" + name; }
  std::vector<std::string> WorkerCommand(const std::string& name, worker::WorkerOptions worker) {
    worker.controller_endpoint = IpcEndpoint("worker");
    std::filesystem::create_directory(Folder(name));
    std::ofstream(Folder(name) + "/worker.yaml") << worker::ToYaml(worker);
    return {Must(FindProgram("lockstep-worker", "LOCKSTEP_WORKER", "services/worker")), "--config",
            Folder(name) + "/worker.yaml"};
  }
  static ChildProcess Start(const ChildOptions& options) {
    return Must(ChildProcess::Spawn(options));
  }
};

TEST_F(MpiTest, WorkersOfAJobComputeTogetherAndEndInOrder) {
  ChildProcess job = StartJob("job", kRanks);
  AwaitReady();
  const ClusterStatus status = Must(Ask());
  for (const WorkerStatus& worker : status.workers) {
    EXPECT_EQ(worker.backend, "mpi");
    EXPECT_EQ(worker.connection, "the controller is set to mpi");
  }
  {
    Session session = Must(ConnectTo(IpcEndpoint("client")));
    ExpectCollectives(session);
    EXPECT_EQ(session.Close(), OkStatus());
  }
  EXPECT_EQ(ShutdownCluster(IpcEndpoint("client"), "enough", kLong), OkStatus());
  // With MPI_Finalize in all of them: else mpirun complains.
  ExpectEnd(job, "job", true);
}

TEST_F(MpiTest, RandomReshardsAndProgramsDoWhatTheyMean) {
  const ChildProcess job = StartJob("job", kRanks);
  AwaitReady();
  Session session = Must(ConnectTo(IpcEndpoint("client")));
  ExpectRandomReshards(session, kRanks, 20261126, 24);
  ExpectRandomPrograms(session, kRanks, 20261126, 12);
}

// MPI alone would end the job.
TEST_F(MpiTest, AFailureInTheMiddleOfACollectiveIsToldAndTheSessionGoesOn) {
  const ChildProcess job = StartJob("job", kRanks);
  AwaitReady();
  Session session = Must(ConnectTo(IpcEndpoint("client")));
  Session other = Must(ConnectTo(IpcEndpoint("client")));
  const DRef tensor = FullOfRank(session, 500'000);
  ExpectFull(session, Must(session.AllReduce(tensor, Reduction::kSum)), 3);

  // The others wait in the collective by then.
  (void)Call(session, "lockstep.sleep", 0.1, 1);
  (void)Call(session, "lockstep.fail", "a disk is full", 1);
  (void)session.AllReduce(tensor, Reduction::kSum);
  const auto begin = Deadline::Clock::now();
  const Status failed = session.SyncAll();
  EXPECT_THAT(Message(failed), AllOf(HasSubstr("rank 1"), HasSubstr("a disk is full")));
  EXPECT_LT(Deadline::Clock::now() - begin, 10s);

  ExpectCollectives(other);
  EXPECT_EQ(session.Reset(), OkStatus());
  ExpectCollectives(session);
}

TEST_F(MpiTest, AJobWhoseProcessDiesEndsAndAnotherTakesItsPlace) {
  ChildProcess job = StartJob("job", kRanks);
  AwaitReady();
  Session session = Must(ConnectTo(IpcEndpoint("client")));
  ExpectCollectives(session);
  kill(Ask()->workers[1].pid, SIGKILL);
  ExpectEnd(job, "job", false);
  EXPECT_NE(session.SyncAll(), OkStatus());

  const ChildProcess next = StartJob("next", kRanks);
  AwaitReady();
  Session later = Must(ConnectTo(IpcEndpoint("client")));
  ExpectCollectives(later);
}

TEST_F(MpiTest, AWorkerOutsideOfTheJobIsRefusedWithTheReason) {
  ChildProcess job = StartJob("job", kRanks - 1);
  ChildProcess stranger = StartWorkerByHand("stranger", kRanks - 1);
  ExpectEnd(job, "job", false);
  ExpectEnd(stranger, "stranger", false);
  for (const char* const log : {"stranger", "job"}) {
    EXPECT_THAT(LogOf(log), HasSubstr("the ranks cannot be connected by mpi: ranks 0, 1: their MPI "
                                      "job has 2 processes, and the cluster 3 workers"));
    EXPECT_THAT(LogOf(log), HasSubstr("; rank 2: not started by mpirun or srun: "));
  }
}

// A launcher that does not tell how many it has started: only MPI itself knows.
TEST_F(MpiTest, WorkersOfDifferentJobsAreRefusedWithTheReason) {
  std::vector<ChildProcess> jobs;
  for (const std::string name : {"a", "b", "c"}) {
    jobs.push_back(StartJob(name, 1, {"/usr/bin/env", "-u", "OMPI_COMM_WORLD_SIZE"}));
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    const std::string name(1, "abc"[i]);
    ExpectEnd(jobs[i], name, false);
    EXPECT_THAT(LogOf(name), HasSubstr("was not started in the same MPI job as rank"));
  }
}

}  // namespace
}  // namespace lockstep::testing
