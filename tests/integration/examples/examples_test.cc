// The examples as people run them: the built programs, on threads, on processes, and on a cluster
// that `lockstep up` started.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "examples/support/find_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/examples/program.h"

namespace lockstep::examples {
namespace {

using ::testing::HasSubstr;

constexpr const char* kDigits = "examples/digits/digits";
constexpr const char* kTensorParallel = "examples/tensor_parallel/tensor_parallel";
constexpr const char* kLockstep = "tools/cli/lockstep";

class ExamplesTest : public testing::Test {
 protected:
  // What the program prints; a failure unless it succeeds.
  std::string Run(const std::string& program, const std::vector<std::string>& arguments) {
    const StatusOr<ProgramResult> result = RunProgram(scratch_, program, arguments);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return "";
    EXPECT_EQ(result->exit_code, 0) << program << " printed:\n" << result->output;
    return result->output;
  }

  // Trains with the default settings; returns the loss of every epoch.
  std::vector<double> Train(std::vector<std::string> arguments) {
    const std::string losses = scratch_.File("losses.csv");
    arguments.insert(arguments.end(), {"--losses", losses, "--quiet"});
    const std::string output = Run(kDigits, arguments);
    std::smatch accuracy;
    const bool found =
        std::regex_search(output, accuracy, std::regex("held-out accuracy ([0-9.]+)"));
    EXPECT_TRUE(found) << output;
    EXPECT_GE(found ? std::stod(accuracy[1]) : 0, 0.95);
    return ReadLosses(losses);
  }

  ScratchDirectory scratch_;

 private:
  static std::vector<double> ReadLosses(const std::string& path) {
    std::istringstream text(ReadFile(path));
    std::filesystem::remove(path);
    std::string line;
    EXPECT_TRUE(std::getline(text, line) && line == "epoch,loss") << line;
    std::vector<double> losses;
    while (std::getline(text, line)) {
      losses.push_back(std::stod(line.substr(line.find(',') + 1)));
      EXPECT_EQ(std::stoul(line), losses.size());
    }
    return losses;
  }
};

void ExpectSameCurve(const std::vector<double>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], 1e-4) << "epoch " << i + 1;
  }
}

TEST_F(ExamplesTest, HelloAddsUpTheRanks) {
  EXPECT_EQ(Run("examples/hello/hello", {}), "0 + 1 + 2 + 3 = 6 6 6 6 6 6\n");
}

TEST_F(ExamplesTest, DigitsHasOneLossCurveForAnyNumberOfWorkers) {
  const std::vector<double> one = Train({"--workers", "1"});
  ASSERT_EQ(one.size(), 40u);
  EXPECT_LT(one.back(), one.front() / 10);
  for (const char* workers : {"2", "3", "4"}) {
    SCOPED_TRACE(std::string(workers) + " workers");
    ExpectSameCurve(Train({"--workers", workers}), one);
  }
  SCOPED_TRACE("3 processes");
  ExpectSameCurve(Train({"--workers", "3", "--processes"}), one);
}

TEST_F(ExamplesTest, DigitsShowsTheLossAsItFalls) {
  const std::string output = Run(kDigits, {"--workers", "2", "--epochs", "10"});
  EXPECT_THAT(output,
              HasSubstr("Training on 1437 images with 2 workers; 360 images are held out."));
  EXPECT_THAT(output, HasSubstr("epoch   1 of 10   loss 1."));
  EXPECT_THAT(output, HasSubstr("epoch  10 of 10   loss 0."));
  EXPECT_THAT(output, HasSubstr("10 epochs on 2 workers in "));
}

TEST_F(ExamplesTest, TensorParallelBlockEqualsTheUnsplitOne) {
  // With 3 workers the heads do not divide; with 9 one worker has none.
  for (const char* workers : {"1", "2", "3", "4", "8", "9"}) {
    EXPECT_THAT(Run(kTensorParallel, {"--workers", workers, "--repeat", "1"}),
                HasSubstr("8 heads over " + std::string(workers) + " worker"));
  }
  EXPECT_THAT(Run(kTensorParallel, {"--workers", "4", "--processes", "--repeat", "1"}),
              HasSubstr("8 heads over 4 workers"));
}

// A cluster of service processes that allows the examples' modules.
class ExamplesOnAClusterTest : public ExamplesTest {
 protected:
  void SetUp() override {
    std::vector<std::string> up = {"up", "--workers", "4", "--name", "examples", "--detach"};
    for (const char* module :
         {"examples/digits/digits_module.so", "examples/tensor_parallel/transformer_module.so"}) {
      const StatusOr<std::string> path = FindFile(module);
      ASSERT_TRUE(path.ok()) << path.status();
      up.insert(up.end(), {"--module-path", std::filesystem::path(*path).parent_path().string()});
    }
    Run(kLockstep, up);
    ASSERT_FALSE(HasFailure());
    const std::string status = Run(kLockstep, {"status", "--name", "examples", "--output", "json"});
    ASSERT_FALSE(HasFailure());
    endpoint_ = nlohmann::json::parse(status).at("endpoint").get<std::string>();
  }
  void TearDown() override { Run(kLockstep, {"down", "examples"}); }

  std::string endpoint_;
};

TEST_F(ExamplesOnAClusterTest, BothRunOnTheSameCluster) {
  const std::vector<double> embedded = Train({"--workers", "4"});
  ExpectSameCurve(Train({"--connect", endpoint_}), embedded);
  EXPECT_THAT(Run(kTensorParallel, {"--connect", endpoint_, "--repeat", "1"}),
              HasSubstr("8 heads over 4 workers"));
  // A session leaves nothing behind that would disturb the next.
  ExpectSameCurve(Train({"--connect", endpoint_}), embedded);
}

TEST_F(ExamplesOnAClusterTest, AModuleThatTheOperatorDidNotAllowIsRefused) {
  const StatusOr<ProgramResult> result =
      RunProgram(scratch_, kDigits, {"--connect", endpoint_, "--module", "/lib/libm.so.6"});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_code, 1);
  EXPECT_THAT(result->output, HasSubstr("/lib/libm.so.6"));
}

TEST_F(ExamplesTest, WrongFlagsAreExplained) {
  const struct {
    std::vector<std::string> arguments;
    std::string message;
  } cases[] = {
      {{"--data", "/no/such/file"}, "digits: cannot open the data set /no/such/file"},
      {{"--module", "/no/such/module.so"}, "digits: cannot open the module /no/such/module.so"},
      {{"--workers", "0"}, "--workers"},
      {{"--workers", "2", "--connect", "ipc:///tmp/nobody"}, "--workers excludes --connect"},
      {{"--losses", "/no/such/folder/losses.csv", "--epochs", "1"},
       "digits: cannot write the losses to /no/such/folder/losses.csv"},
  };
  for (const auto& bad : cases) {
    const StatusOr<ProgramResult> result = RunProgram(scratch_, kDigits, bad.arguments);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_NE(result->exit_code, 0);
    EXPECT_THAT(result->output, HasSubstr(bad.message));
  }
}

}  // namespace
}  // namespace lockstep::examples
