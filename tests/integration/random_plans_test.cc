// Random reshards and programs on the workers of each kind of cluster: by shared memory, in two
// levels on several hosts, by NCCL on fake GPUs; and by Gloo alone. mpi_test.cc has those of MPI.
#include "tests/integration/random_plans.h"

#include <dlfcn.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tests/integration/session_fixture.h"

namespace lockstep::testing {
namespace {

constexpr uint32_t kSeed = 20261126;

std::string BackendOf(const Cluster& cluster) {
  const auto status = GetClusterStatus(cluster.address(), std::chrono::seconds(20));
  return status.ok() ? status->workers.front().backend : Message(status.status());
}

class RandomPlansTest : public SessionFixture {};
INSTANTIATE_TEST_SUITE_P(Clusters, RandomPlansTest, ::testing::ValuesIn(AllKinds()), NameOf);

TEST_P(RandomPlansTest, ReshardsMoveWhatTheySay) {
  if (GetParam() == ClusterKind::kHosts) {
    EXPECT_EQ(BackendOf(SharedCluster(GetParam())), "shm+tcp");
  }
  ExpectRandomReshards(*session_, kWorkers, kSeed, 32);
}

// How many graphs the fake GPUs of this process have launched; nothing: they are not here.
std::optional<int> LaunchedGraphs() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return std::nullopt;
  const auto ask = reinterpret_cast<int (*)()>(dlsym(library, "fake_cuda_graph_launches"));
  std::optional<int> launched;
  if (ask != nullptr) launched = ask();
  dlclose(library);
  return launched;
}

TEST_P(RandomPlansTest, ProgramsDoWhatTheyMean) {
  const std::optional<int> before = LaunchedGraphs();
  ExpectRandomPrograms(*session_, kWorkers, kSeed, 16);
  const bool in_this_process =
      GetParam() == ClusterKind::kLocalThreads || GetParam() == ClusterKind::kTcpThreads;
  if (!before.has_value() || !in_this_process) return;
  EXPECT_GT(LaunchedGraphs(), before) << "plans are launched as graphs";
}

std::vector<ClusterKind> OneOfThreads() {
  std::vector<ClusterKind> kinds = PossibleKinds();
  std::erase_if(kinds, [](ClusterKind kind) { return kind != ClusterKind::kTcpThreads; });
  return kinds;
}

// Ranks that share memory, and do not use it.
class RandomPlansByGlooTest : public OwnClusterFixture {
 protected:
  ClusterOptions OwnOptions() override {
    ClusterOptions options;
    options.controller.communicator = "gloo";
    return options;
  }
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RandomPlansByGlooTest);
INSTANTIATE_TEST_SUITE_P(Clusters, RandomPlansByGlooTest, ::testing::ValuesIn(OneOfThreads()),
                         NameOf);

TEST_P(RandomPlansByGlooTest, ReshardsAndProgramsDoWhatTheyMean) {
  EXPECT_EQ(BackendOf(*cluster_), "gloo");
  ExpectRandomReshards(*session_, kWorkers, kSeed, 16);
  ExpectRandomPrograms(*session_, kWorkers, kSeed, 8);
}

}  // namespace
}  // namespace lockstep::testing
