#include "examples/digits/dataset.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::examples::digits {
namespace {

using ::testing::HasSubstr;

constexpr const char* kDigits = "examples/digits/data/optdigits.csv";

// A file that is gone when the test is over.
class DatasetTest : public testing::Test {
 protected:
  DatasetTest() : path_(testing::TempDir() + "digits-" + std::to_string(getpid()) + ".csv") {}
  ~DatasetTest() override { std::remove(path_.c_str()); }

  StatusOr<Dataset> Load(const std::string& text) {
    std::ofstream(path_) << text;
    return LoadDataset(path_);
  }
  // 64 pixels of value `pixel`, and the label.
  static std::string Line(const std::string& pixel, const std::string& label) {
    std::string line;
    for (int i = 0; i < kPixels; ++i) line += pixel + ",";
    return line + label + "\n";
  }

  const std::string path_;
};

TEST_F(DatasetTest, HoldsTheImagesThatItsReadmeCounts) {
  const StatusOr<Dataset> dataset = LoadDataset(kDigits);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->size(), 1797);
  EXPECT_EQ(dataset->images.size(), 1797u * kPixels);
  std::map<int, int> count;
  for (const uint8_t label : dataset->labels) ++count[label];
  const std::map<int, int> expected = {{0, 178}, {1, 182}, {2, 177}, {3, 183}, {4, 181},
                                       {5, 182}, {6, 181}, {7, 179}, {8, 174}, {9, 180}};
  EXPECT_EQ(count, expected);
}

TEST_F(DatasetTest, EveryFifthImageIsHeldOut) {
  const StatusOr<Dataset> dataset = LoadDataset(kDigits);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const Split split = HoldOutEveryFifth(*dataset);
  EXPECT_EQ(split.held_out.size(), 360);
  EXPECT_EQ(split.training.size(), 1437);
  EXPECT_EQ(split.held_out.labels[1], dataset->labels[5]);
  EXPECT_EQ(split.training.labels[4], dataset->labels[6]);
  EXPECT_TRUE(std::equal(&split.training.images[4 * kPixels], &split.training.images[5 * kPixels],
                         &dataset->images[6 * kPixels]));
}

TEST_F(DatasetTest, ReadsPixelsAndLabel) {
  const StatusOr<Dataset> dataset = Load(Line("0", "3") + Line("16", "9"));
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->labels, (std::vector<uint8_t>{3, 9}));
  EXPECT_EQ(dataset->images.front(), 0);
  EXPECT_EQ(dataset->images.back(), 16);
}

TEST_F(DatasetTest, ErrorsNameFileLineAndWhatIsWrong) {
  const struct {
    std::string line;
    std::string problem;
  } cases[] = {
      {Line("17", "3"), "pixel 0 must be a whole number from 0 to 16"},
      {Line("-1", "3"), "pixel 0 must be a whole number from 0 to 16"},
      {Line("x", "3"), "pixel 0 must be a whole number from 0 to 16"},
      {Line("1", "10"), "label 64 must be a whole number from 0 to 9"},
      {Line("1", "3,4"), "something follows the label"},
      {"1,2,3\n", "expected 65 numbers with commas between them, found 3"},
      {"\n", "pixel 0 must be a whole number"},
  };
  for (const auto& bad : cases) {
    const StatusOr<Dataset> dataset = Load(Line("1", "2") + bad.line);
    ASSERT_EQ(dataset.status().code(), StatusCode::kInvalidArgument) << bad.line;
    EXPECT_THAT(Message(dataset.status()), HasSubstr(path_ + ":2: " + bad.problem));
  }
}

TEST_F(DatasetTest, AMissingOrEmptyFileIsAnError) {
  EXPECT_EQ(LoadDataset(path_ + ".not-there").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Load("").status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::examples::digits
