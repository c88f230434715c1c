// What takes libFuzzer's place where it is not linked: puts every file of a folder through the
// harness once. A finding ends the process.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

std::vector<std::filesystem::path> corpus;

TEST(CorpusTest, EveryInputIsReadOrRefused) {
  ASSERT_FALSE(corpus.empty()) << "the corpus has no files";
  for (const std::filesystem::path& path : corpus) {
    std::ifstream file(path, std::ios::binary);
    ASSERT_TRUE(file) << path;
    const std::string bytes((std::istreambuf_iterator<char>(file)),
                            std::istreambuf_iterator<char>());
    // Said before: whatever the harness finds ends the process here.
    std::printf("%s\n", path.filename().c_str());
    std::fflush(stdout);
    // A copy of exactly this size, so that AddressSanitizer sees what reads beyond it.
    const std::vector<uint8_t> input(bytes.begin(), bytes.end());
    EXPECT_EQ(LLVMFuzzerTestOneInput(input.data(), input.size()), 0);
  }
}

TEST(CorpusTest, EmptyInputIsReadOrRefused) {
  const uint8_t nothing = 0;
  EXPECT_EQ(LLVMFuzzerTestOneInput(&nothing, 0), 0);
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      corpus.push_back(entry.path());
    }
  }
  return RUN_ALL_TESTS();
}
