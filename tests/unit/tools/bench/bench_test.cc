// Runs the built program. What it measures here means nothing; that it can be read does.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/bench/program.h"

namespace lockstep::bench {
namespace {

constexpr char kBench[] = "tools/bench/bench";

TEST(BenchTest, AQuickLookPrintsATableAndWritesJson) {
  const std::string path = testing::TempDir() + "/bench.json";
  const auto output = RunProgram({.argv = {kBench, "--quick", "--only", "encode", "--json", path},
                                  .scratch = testing::TempDir()});
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_NE(output->find("verdict"), std::string::npos) << *output;

  const auto json = nlohmann::json::parse(std::ifstream(path));
  EXPECT_GT(json.at("machine").at("cores"), 0);
  ASSERT_EQ(json.at("lines").size(), 2U);
  const auto& line = json.at("lines")[0];
  EXPECT_EQ(line.at("row"), "encode");
  EXPECT_GT(line.at("ours").at("median"), 0);
  EXPECT_EQ(line.at("rivals").size(), 1U);
  EXPECT_GT(line.at("ratio"), 0);
}

#ifdef LOCKSTEP_FAKE_GPU
// On fake GPUs: that everything is measured, not how fast it is.
TEST(BenchTest, GpusAreMeasuredWhereThereAreAny) {
  const std::string path = testing::TempDir() + "/gpu.json";
  const auto output = RunProgram(
      {.argv = {kBench, "--quick", "--only", "gpu", "--json", path},
       .environment = {"LD_LIBRARY_PATH=" + std::filesystem::absolute("tests/fakes/cuda").string() +
                           ":" + std::filesystem::absolute("tests/fakes/nccl").string(),
                       "FAKE_CUDA_DEVICES=2"},
       .scratch = testing::TempDir()});
  ASSERT_TRUE(output.ok()) << output.status();
  const auto json = nlohmann::json::parse(std::ifstream(path));
  // No-op calls; three ways to copy; posting with one GPU and with two, and one size there; a plan.
  ASSERT_EQ(json.at("lines").size(), 1U + 3 + 2 + 2 + 1 + 1) << *output;
  for (const auto& line : json.at("lines")) EXPECT_NE(line.at("verdict"), "not measured") << line;
}
#endif

// That simulated workers do what real ones do, as far as a controller can tell, is what this shows:
// they join, answer, are lost, and are replaced.
TEST(BenchTest, AControllerIsMeasuredWithSimulatedWorkers) {
  const std::string path = testing::TempDir() + "/scale.svg";
  const auto output =
      RunProgram({.argv = {kBench, "--scale", "--quick", "--workers", "8", "--picture", path},
                  .scratch = testing::TempDir()});
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_NE(output->find("mending: until the session works"), std::string::npos) << *output;
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(BenchTest, AnUnknownRowIsWrongUsage) {
  const Status status =
      RunProgram({.argv = {kBench, "--only", "everything"}, .scratch = testing::TempDir()})
          .status();
  EXPECT_NE(Message(status).find("exit code 2"), std::string::npos) << status;
}

}  // namespace
}  // namespace lockstep::bench
