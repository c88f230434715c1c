#include "tests/conformance/mpi_job.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

#include "runtime/collective/folder_rendezvous.h"
#include "runtime/collective/mpi/mpi.h"
#include "services/local/temporary_directory.h"
#include "tests/conformance/world_under_test.h"
#include "tests/support/mpirun.h"

namespace lockstep::collective {
namespace {

// Set in the processes that mpirun starts: where they meet.
constexpr char kFolder[] = "LOCKSTEP_CONFORMANCE_RENDEZVOUS";
// A file there for each rank whose body has run: a program that finds no test to run ends well,
// too.
constexpr char kRan[] = "/ran-";
// Starting included.
constexpr auto kJobPatience = 2 * kPatience;
// A rank that has failed waits for the others, which may wait for it.
constexpr auto kLeavingPatience = std::chrono::seconds(10);

// A process of the job: it begins MPI with its first world, and ends it after its test.
class LeavesItsJob final : public testing::Environment {
  void TearDown() override {
    const Status left = mpi::LeaveJob(Deadline::After(kLeavingPatience));
    EXPECT_TRUE(left.ok()) << left;
  }
};
testing::Environment* const kLeavesItsJob = testing::AddGlobalTestEnvironment(new LeavesItsJob);

void RunRank(int size, const std::string& folder, const MpiRankMain& rank_main) {
  static uint64_t worlds = 0;
  mpi::Options options;
  // Not the number that MPI has for it: the two need not be the same.
  options.rank = size - 1 - std::atoi(std::getenv("OMPI_COMM_WORLD_RANK"));
  options.size = size;
  options.world = ++worlds;
  options.rendezvous = std::make_shared<FolderRendezvous>(folder, options.rank);
  auto comm = mpi::Connect(options, Patience());
  ASSERT_TRUE(comm.ok()) << comm.status();
  // The folder has a name that no other has.
  rank_main(std::filesystem::path(folder).filename().string() + "-" + std::to_string(worlds),
            *std::move(comm));
  std::ofstream(folder + kRan + std::to_string(options.rank)) << "yes";
}

void RunJob(int size, const testing::TestInfo& test) {
  auto directory = local::TemporaryDirectory::Create();
  ASSERT_TRUE(directory.ok()) << directory.status();
  const std::string& scratch = (*directory)->path();
  const RendezvousFolder folder;
  // It should not write to the files that this program writes.
  ChildOptions options = support::Mpirun::Job(
      size,
      {std::filesystem::read_symlink("/proc/self/exe"), "--gtest_output=",
       std::string("--gtest_filter=") + test.test_suite_name() + "." + test.name()},
      scratch);
  options.environment.push_back("TEST_PREMATURE_EXIT_FILE=");
  // Its one test is this shard's, whichever that is of the job's.
  options.environment.push_back("GTEST_TOTAL_SHARDS=1");
  options.environment.push_back("GTEST_SHARD_INDEX=0");
  options.environment.push_back(std::string(kFolder) + "=" + folder.path());
  auto job = ChildProcess::Spawn(options);
  ASSERT_TRUE(job.ok()) << job.status();
  auto end = job->Wait(Deadline::After(kJobPatience));
  if (!end.ok()) end = job->Terminate(Deadline::After(std::chrono::seconds(20)));
  std::ifstream log(options.log_path);
  std::ostringstream text;
  text << log.rdbuf();
  ASSERT_TRUE(end.ok()) << end.status() << "\n" << text.str();
  EXPECT_TRUE(end->ok()) << "the MPI job " << end->Describe() << ":\n" << text.str();
  for (int rank = 0; rank < size; ++rank) {
    EXPECT_TRUE(std::filesystem::exists(folder.path() + kRan + std::to_string(rank)))
        << "rank " << rank << " has not run the test:\n"
        << text.str();
  }
}

}  // namespace

std::string WhyNoMpiJob() { return support::Mpirun::WhyNot(); }

void RunMpiJob(int size, const MpiRankMain& rank_main) {
  if (const char* const folder = std::getenv(kFolder)) return RunRank(size, folder, rank_main);
  // The job runs the whole test, with all the worlds that it makes.
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  using Call = std::pair<const testing::TestInfo*, testing::TimeInMillis>;  // it may be repeated
  static Call last;
  const Call call(&test, test.result()->start_timestamp());
  if (call != std::exchange(last, call)) RunJob(size, test);
}

}  // namespace lockstep::collective
