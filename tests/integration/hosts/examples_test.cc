// The examples on a cluster over several hosts, beside the same on one host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "examples/support/find_file.h"
#include "tests/integration/examples/program.h"
#include "tests/integration/hosts/hosts_fixture.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

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
  std::vector<double> Train(std::vector<std::string> arguments) {
    const std::string file = scratch_.File("losses.csv");
    arguments.insert(arguments.end(), {"--losses", file, "--quiet", "--epochs", "10"});
    EXPECT_THAT(Run(kDigits, arguments), HasSubstr("10 epochs on 6 workers"));
    std::istringstream text(examples::ReadFile(file));
    std::vector<double> losses;
    std::string line;
    std::getline(text, line);
    while (std::getline(text, line)) losses.push_back(std::stod(line.substr(line.find(',') + 1)));
    return losses;
  }
  NetnsClusterOptions WithModules() {
    NetnsClusterOptions options;
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

// The gradients of two ranks of a host are added before those of the hosts: the sums of floats may
// differ in their last bits from those on one host.
TEST_F(HostsExamplesTest, DigitsHasTheSameLossCurve) {
  NetnsCluster cluster(WithModules());
  ASSERT_EQ(cluster.Start(), OkStatus());
  const std::vector<double> over_hosts = Train({"--connect", cluster.endpoint()});
  const std::vector<double> on_one = Train({"--workers", "6", "--processes"});
  ASSERT_EQ(over_hosts.size(), 10u);
  ASSERT_EQ(on_one.size(), 10u);
  for (size_t i = 0; i < on_one.size(); ++i) EXPECT_NEAR(over_hosts[i], on_one[i], 1e-4) << i;
}

TEST_F(HostsExamplesTest, TensorParallelBlockEqualsTheUnsplitOne) {
  NetnsCluster cluster(WithModules());
  ASSERT_EQ(cluster.Start(), OkStatus());
  EXPECT_THAT(Run(kTensorParallel, {"--connect", cluster.endpoint(), "--repeat", "1"}),
              HasSubstr("8 heads over 6 workers"));
}

}  // namespace
}  // namespace lockstep::testing
