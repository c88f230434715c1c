// What functions print, where the user of the command line sees it.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/integration/cli/cli_fixture.h"

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class WorkerOutputTest : public CliTest {
 protected:
  void SetUp() override {
    // Runfiles are links, and a module is where its link leads to.
    const std::string modules =
        fs::canonical(root_ + "/tests/unit/runtime/module/testdata/printing_module.so")
            .parent_path();
    ASSERT_EQ(Run({"up", "--detach", "--workers", "2", "--module-path", modules}).code, 0);
  }
  Result CallModule(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"call", "--module", "printing_module.so"});
    return Run(arguments);
  }
  std::string WorkerLog(int rank) {
    return ReadFile(RunDirectory("lockstep") + "/worker-" + std::to_string(rank) + ".log");
  }
};

TEST_F(WorkerOutputTest, IsShownWithItsRankAndLoggedAllTheSame) {
  const Result call = CallModule({"print", "\"hello\""});
  EXPECT_EQ(call.code, 0) << call.output;
  EXPECT_THAT(call.output, AllOf(HasSubstr("[rank 0] hello\n"), HasSubstr("[rank 1] hello\n")));
  for (const int rank : {0, 1}) EXPECT_THAT(WorkerLog(rank), HasSubstr("hello\n"));
}

TEST_F(WorkerOutputTest, IsLeftToTheLogOnDemand) {
  const Result call = CallModule({"print", "\"hello\"", "--worker-output", "log"});
  EXPECT_EQ(call.code, 0) << call.output;
  EXPECT_THAT(call.output, Not(HasSubstr("hello")));
  for (const int rank : {0, 1}) EXPECT_THAT(WorkerLog(rank), HasSubstr("hello\n"));
}

TEST_F(WorkerOutputTest, NeverGetsIntoAJsonDocument) {
  const std::string command = root_ +
                              "/tools/cli/lockstep call --module printing_module.so print "
                              "'\"hello\"' --output json 2> " +
                              scratch_ + "/stderr";
  const Result call = RunProgram({"/bin/sh", "-c", command});
  EXPECT_EQ(call.code, 0) << call.output;
  EXPECT_FALSE(json::parse(call.output, nullptr, false).is_discarded()) << call.output;
  EXPECT_THAT(ReadFile(scratch_ + "/stderr"), HasSubstr("[rank 1] hello\n"));
}

TEST_F(WorkerOutputTest, OfAProgramIsShownAsItRuns) {
  const std::string program = WriteProgram(
      "steps:\n"
      "  - {load: printing_module.so, as: printing}\n"
      "  - {call: print, module: printing, args: [\"from a program\"]}\n");
  const Result run = Run({"run", program});
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("[rank 1] from a program\n"));
}

TEST_F(WorkerOutputTest, LastWordsOfAWorkerThatDiesAreInItsLog) {
  const Result call =
      CallModule({"print_and_abort", "\"last words\"", "1", "1", "--worker-output", "forward"});
  EXPECT_EQ(call.code, 1) << call.output;
  // Both ranks are told to die. The second may hear of the first one's end before it begins.
  const std::string loss = "worker rank ";
  const size_t at = call.output.find(loss);
  ASSERT_NE(at, std::string::npos) << call.output;
  const int lost = std::stoi(call.output.substr(at + loss.size()));
  EXPECT_THAT(WorkerLog(lost), HasSubstr("last words\n")) << call.output;
  EXPECT_THAT(WorkerLog(lost), HasSubstr("killed by a signal (Aborted), stack:\n"));
  EXPECT_THAT(WorkerLog(lost), HasSubstr("printing_module.so("));
}

}  // namespace
}  // namespace lockstep::cli
