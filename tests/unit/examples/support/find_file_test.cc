#include "examples/support/find_file.h"

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::examples {
namespace {

TEST(FindFileTest, FindsWhatTheProgramBringsAlong) {
  const StatusOr<std::string> path = FindFile("examples/digits/data/optdigits.csv");
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_TRUE(std::filesystem::path(*path).is_absolute());
  EXPECT_EQ(std::filesystem::file_size(*path), 264712u);
}

TEST(FindFileTest, FindsWhatLiesBesideTheProgram) {
  // Whatever folder it was built in: the test itself.
  const StatusOr<std::string> path = FindFile("no/such/folder/find_file_test");
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(std::filesystem::path(*path).filename(), "find_file_test");
}

TEST(FindFileTest, AnErrorListsWhereItLooked) {
  const StatusOr<std::string> path = FindFile("examples/no_such_file.so");
  ASSERT_EQ(path.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(Message(path.status()), testing::HasSubstr("there is no examples/no_such_file.so"));
  EXPECT_THAT(Message(path.status()),
              testing::HasSubstr(".runfiles/lockstep/examples/no_such_file.so\n"));
}

}  // namespace
}  // namespace lockstep::examples
