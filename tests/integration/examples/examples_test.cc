// The examples as people run them: the built programs, on threads, on processes, and on a cluster
// that `lockstep up` started.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/integration/examples/examples_fixture.h"

namespace lockstep::examples {
namespace {

using ::testing::HasSubstr;

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

TEST_F(ExamplesTest, DigitsAsAPlanTrainsTheSameInEveryBit) {
  // With 4 workers the rows do not divide.
  for (const char* workers : {"1", "4"}) {
    EXPECT_THAT(Run(kDigits, {"--workers", workers, "--epochs", "3", "--quiet", "--plan"}),
                HasSubstr("\nas a plan: the same in every bit, "));
  }
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
    const std::string output = Run(kTensorParallel, {"--workers", workers, "--repeat", "1"});
    EXPECT_THAT(output, HasSubstr("8 heads over " + std::string(workers) + " worker"));
    EXPECT_THAT(output, HasSubstr(std::string("3 9").find(workers) != std::string::npos
                                      ? "not as a plan: the workers do not divide heads"
                                      : "as a plan: the same in every bit, "));
  }
  EXPECT_THAT(Run(kTensorParallel, {"--workers", "4", "--processes", "--repeat", "1"}),
              HasSubstr("8 heads over 4 workers"));
}

TEST_F(ExamplesTest, PipelineEqualsOneWorker) {
  for (const char* workers : {"2", "4", "6"}) {
    EXPECT_THAT(Run("examples/pipeline/pipeline", {"--workers", workers, "--repeat", "1",
                                                   "--micro-batches", "3", "--tokens", "7"}),
                HasSubstr("3 micro-batches through 2 stages of "));
  }
}

class ExamplesOnAClusterTest : public ExamplesTest {
 protected:
  void SetUp() override {
    endpoint_ = Up("examples", {"--workers", "4"});
    ASSERT_FALSE(HasFailure());
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
