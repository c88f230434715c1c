// Without libFuzzer: puts every file of each target's corpus through its harness once. A finding
// ends the process.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {
namespace {

class CorpusTest : public testing::TestWithParam<Target> {};

TEST_P(CorpusTest, EveryInputIsReadOrRefused) {
  int inputs = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("tests/fuzz/corpus/" + GetParam().name)) {
    std::ifstream file(entry.path(), std::ios::binary);
    ASSERT_TRUE(file) << entry.path();
    const std::string bytes((std::istreambuf_iterator<char>(file)),
                            std::istreambuf_iterator<char>());
    // Said before: whatever the harness finds ends the process here.
    std::printf("%s\n", entry.path().filename().c_str());
    std::fflush(stdout);
    // A copy of exactly this size, so that AddressSanitizer sees what reads beyond it.
    const std::vector<uint8_t> input(bytes.begin(), bytes.end());
    GetParam().harness(input.data(), input.size());
    ++inputs;
  }
  EXPECT_GT(inputs, 0) << "the corpus has no files";
}

TEST_P(CorpusTest, EmptyInputIsReadOrRefused) {
  const uint8_t nothing = 0;
  GetParam().harness(&nothing, 0);
}

INSTANTIATE_TEST_SUITE_P(Targets, CorpusTest, testing::ValuesIn(Targets()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lockstep::fuzz
