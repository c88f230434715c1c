#include "services/local/config_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/files.h"

namespace lockstep::local {
namespace {

using support::Write;

TEST(ConfigFileTest, TheKindOfAFileIsGuessedFromItsKeys) {
  EXPECT_EQ(*GuessFileKind(Write("workers: 4\n")), FileKind::kCluster);
  EXPECT_EQ(*GuessFileKind(Write("ranks: {0: {device: cpu}}\n")), FileKind::kCluster);
  EXPECT_EQ(*GuessFileKind(Write("workers: 4\nclient_endpoint: x\n")), FileKind::kController);
  EXPECT_EQ(*GuessFileKind(Write("cluster: a\ncontroller_endpoint: x\n")), FileKind::kWorker);
  EXPECT_FALSE(GuessFileKind(Write("nothing: known\n")).ok());
  EXPECT_FALSE(GuessFileKind("/nonexistent").ok());
}

TEST(ConfigFileTest, KindsHaveNames) {
  for (const FileKind kind : {FileKind::kCluster, FileKind::kController, FileKind::kWorker}) {
    EXPECT_EQ(*ParseFileKind(Name(kind)), kind);
  }
  EXPECT_FALSE(ParseFileKind("clusters").ok());
}

TEST(ConfigFileTest, ValidateReportsWhatLoadingWould) {
  EXPECT_TRUE(ValidateFile(FileKind::kCluster, Write("workers: 4\n")).ok());
  EXPECT_FALSE(ValidateFile(FileKind::kWorker, Write("workers: 4\n")).ok());
  EXPECT_FALSE(ValidateFile(FileKind::kController, Write("workers: 4\n")).ok());
}

// docs/configuration.md shows the tables; to add a setting, paste what this prints.
TEST(ConfigFileTest, TheDocumentationShowsTheTables) {
  std::ifstream file("docs/configuration.md");
  ASSERT_TRUE(file) << "docs/configuration.md is not among the test's data";
  std::ostringstream text;
  text << file.rdbuf();
  for (const FileKind kind : {FileKind::kController, FileKind::kWorker}) {
    const std::string table = config::ToMarkdown(Describe(kind));
    EXPECT_NE(text.str().find(table), std::string::npos)
        << "docs/configuration.md lacks this table of the " << Name(kind) << ":\n"
        << table;
  }
}

}  // namespace
}  // namespace lockstep::local
