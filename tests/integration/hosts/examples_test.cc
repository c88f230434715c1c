// The examples on a cluster over several hosts, beside the same on one host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "examples/support/find_file.h"
#include "runtime/base/sanitizers.h"
#include "tests/integration/examples/program.h"
#include "tests/integration/hosts/hosts_fixture.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// What the wires of all hosts are like.
enum class Wires { kGood, kLong, kLossy, kNarrow };

std::string NameOf(const ::testing::TestParamInfo<Wires>& info) {
  constexpr const char* kNames[] = {"Good", "Long", "Lossy", "Narrow"};
  return kNames[static_cast<size_t>(info.param)];
}

constexpr char kDigits[] = "examples/digits/digits";
constexpr char kTensorParallel[] = "examples/tensor_parallel/tensor_parallel";

class HostsExamplesTest : public HostsFixture {
 protected:
  std::string Run(const std::string& program, const std::vector<std::string>& arguments) {
    const auto result = examples::RunProgram(scratch_, program, arguments);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return "";
    EXPECT_EQ(result->exit_code, 0) << result->output;
    return result->output;
  }
  // The loss of every epoch.
  std::vector<double> Train(int workers, std::vector<std::string> arguments) {
    const std::string file = scratch_.File("losses.csv");
    arguments.insert(arguments.end(), {"--losses", file, "--quiet", "--epochs", "10"});
    EXPECT_THAT(Run(kDigits, arguments),
                HasSubstr("10 epochs on " + std::to_string(workers) + " workers"));
    std::istringstream text(examples::ReadFile(file));
    std::vector<double> losses;
    std::string line;
    std::getline(text, line);
    while (std::getline(text, line)) losses.push_back(std::stod(line.substr(line.find(',') + 1)));
    EXPECT_EQ(losses.size(), 10u);
    return losses;
  }
  static std::vector<std::string> Connecting(const NetnsCluster& cluster,
                                             std::vector<std::string> more = {}) {
    const ControllerAddress controller = cluster.address();
    more.insert(more.begin(), {"--connect", controller.endpoint, "--key", controller.key,
                               "--controller-key", controller.controller_key});
    return more;
  }
  NetnsClusterOptions WithModules(NetnsClusterOptions options = {}) {
    for (const char* module :
         {"examples/digits/digits_module.so", "examples/tensor_parallel/transformer_module.so"}) {
      const StatusOr<std::string> path = examples::FindFile(module);
      EXPECT_TRUE(path.ok()) << path.status();
      if (!path.ok()) continue;
      options.worker.module_path.push_back(std::filesystem::path(*path).parent_path().string());
    }
    return options;
  }

  examples::ScratchDirectory scratch_;
};

// A sum of two has no order: over the network it is the same in every bit.
TEST_F(HostsExamplesTest, TwoHostsAddUpWhatTwoRanksOfOneDo) {
  NetnsCluster cluster(WithModules({.hosts = 2, .ranks_per_host = 1}));
  ASSERT_EQ(cluster.Start(), OkStatus());
  EXPECT_EQ(Train(2, Connecting(cluster)), Train(2, {"--workers", "2"}));
}

class HostsExamplesOnWiresTest : public HostsExamplesTest,
                                 public ::testing::WithParamInterface<Wires> {
 protected:
  static void SetWires(NetnsCluster& cluster) {
    for (int host = 0; host <= cluster.controller_host(); ++host) {
      if (GetParam() == Wires::kLong) cluster.hosts().Lengthen(host, 2ms);
      if (GetParam() == Wires::kLossy) cluster.hosts().LosePackets(host, 200);
      if (GetParam() == Wires::kNarrow) cluster.hosts().Narrow(host, "200mbit");
    }
  }
};

// To a sanitizer they are all the same: they differ in when bytes arrive, and in how many pieces,
// of which a lossy one has all kinds.
std::vector<Wires> AllWires() {
  if (kSanitized) return {Wires::kLossy};
  return {Wires::kGood, Wires::kLong, Wires::kLossy, Wires::kNarrow};
}

INSTANTIATE_TEST_SUITE_P(Wires, HostsExamplesOnWiresTest, ::testing::ValuesIn(AllWires()), NameOf);

// The gradients of two ranks of a host are added before those of the hosts: the sums of floats may
// differ in their last bits from those on one host.
TEST_P(HostsExamplesOnWiresTest, DigitsHasTheSameLossCurve) {
  NetnsCluster cluster(WithModules());
  ASSERT_EQ(cluster.Start(), OkStatus());
  SetWires(cluster);
  const std::vector<double> over_hosts = Train(6, Connecting(cluster));
  const std::vector<double> on_one = Train(6, {"--workers", "6", "--processes"});
  ASSERT_EQ(over_hosts.size(), on_one.size());
  for (size_t i = 0; i < on_one.size(); ++i) EXPECT_NEAR(over_hosts[i], on_one[i], 1e-4) << i;
}

TEST_P(HostsExamplesOnWiresTest, TensorParallelBlockEqualsTheUnsplitOne) {
  NetnsCluster cluster(WithModules());
  ASSERT_EQ(cluster.Start(), OkStatus());
  SetWires(cluster);
  EXPECT_THAT(Run(kTensorParallel, Connecting(cluster, {"--repeat", "1"})),
              HasSubstr("8 heads over 6 workers"));
}

}  // namespace
}  // namespace lockstep::testing
