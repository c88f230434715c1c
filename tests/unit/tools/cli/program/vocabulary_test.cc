#include "tools/cli/program/vocabulary.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tools/cli/program/check.h"
#include "tools/cli/program/parse.h"

namespace lockstep::cli::program {
namespace {

std::string Documentation() {
  std::ifstream file("docs/program-file.md");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The section of a step: from its heading to the next one.
std::string Section(const std::string& document, const std::string& verb) {
  const size_t begin = document.find("### `" + verb + "`");
  if (begin == std::string::npos) return "";
  return document.substr(begin, document.find("\n##", begin + 1) - begin);
}

TEST(VocabularyTest, EveryStepAndKeyIsDocumented) {
  const std::string document = Documentation();
  ASSERT_FALSE(document.empty());
  for (const VerbSpec& verb : Vocabulary()) {
    const std::string section = Section(document, std::string(verb.name));
    EXPECT_FALSE(section.empty()) << "docs/program-file.md has no section on " << verb.name;
    for (const KeySpec& key : verb.keys) {
      EXPECT_NE(section.find("`" + std::string(key.name) + "`"), std::string::npos)
          << "docs/program-file.md, " << verb.name << ": nothing about " << key.name;
    }
  }
  for (const KeySpec& key : TopLevelKeys()) {
    EXPECT_NE(document.find("`" + std::string(key.name) + "`"), std::string::npos) << key.name;
  }
}

TEST(VocabularyTest, NamesAreUnique) {
  for (const VerbSpec& verb : Vocabulary()) EXPECT_EQ(FindVerb(verb.name), &verb) << verb.name;
  EXPECT_EQ(FindVerb("no_such_step"), nullptr);
}

TEST(ExampleProgramsTest, AreValid) {
  int count = 0;
  std::vector<std::filesystem::path> paths;
  for (const char* const folder : {"examples/programs", "examples/plans"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
    }
  }
  for (const std::filesystem::path& path : paths) {
    if (path.filename() == "layers.yaml") continue;  // to look at: it has no steps
    const StatusOr<Program> program = LoadProgram(path.string());
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_TRUE(CheckProgram(*program, program->workers.value_or(4)).ok())
        << CheckProgram(*program, program->workers.value_or(4));
    ++count;
  }
  EXPECT_GE(count, 5);
}

}  // namespace
}  // namespace lockstep::cli::program
