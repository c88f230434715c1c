#include "tools/cli/doctor_fragments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/files.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class DoctorFragmentsTest : public ::testing::Test {
 protected:
  // A program that answers every question with these lines.
  std::string Compiler(const std::string& script) const {
    const std::string path = scratch_.File("compiler");
    std::ofstream(path) << "#!/bin/sh\n" << script << '\n';
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }
  const support::ScratchDirectory scratch_;
};

TEST_F(DoctorFragmentsTest, ACompilerTellsWhatItIs) {
  const std::string program = Compiler("printf 'MLIR 19.1.7\\nznver4\\n+avx2\\n'");
  const Finding found = CheckFragmentCompiler(program, "operator", OkStatus());
  EXPECT_EQ(found.verdict, Verdict::kGood);
  EXPECT_EQ(found.fact, program + ", MLIR 19.1.7, for znver4; for keys of operators");
  EXPECT_THAT(CheckFragmentCompiler(program, "client", OkStatus()).fact,
              HasSubstr("for keys of clients and operators"));
  const Finding slow =
      CheckFragmentCompiler(program, "operator", Unavailable("install libopenblas0-pthread"));
  EXPECT_EQ(slow.verdict, Verdict::kDoubtful);
  EXPECT_THAT(slow.fact, HasSubstr("products of matrices are slow"));
  EXPECT_EQ(slow.remedy, "install libopenblas0-pthread");
}

TEST_F(DoctorFragmentsTest, WithoutACompilerAllElseWorks) {
  const Finding none = CheckFragmentCompiler("/nonexistent/compiler", "operator", OkStatus());
  EXPECT_EQ(none.verdict, Verdict::kDoubtful);
  EXPECT_THAT(none.fact, HasSubstr("fragments are not available: "));
  EXPECT_THAT(none.remedy, HasSubstr("lockstep-fragments"));
  const Finding broken = CheckFragmentCompiler(Compiler("exit 3"), "operator", OkStatus());
  EXPECT_EQ(broken.verdict, Verdict::kDoubtful);
  EXPECT_THAT(broken.fact, HasSubstr("does not tell what it is"));
  const Finding off = CheckFragmentCompiler("/nonexistent/compiler", "off", OkStatus());
  EXPECT_EQ(off.verdict, Verdict::kGood);
  EXPECT_THAT(off.fact, HasSubstr("off"));
}

TEST_F(DoctorFragmentsTest, TheCacheIsCountedAndMustBelongToTheUser) {
  const std::string path = scratch_.File("fragments");
  EXPECT_THAT(CheckFragmentCache(path).fact, HasSubstr("which is not there yet"));
  EXPECT_EQ(CheckFragmentCache(path + "/and/its").verdict, Verdict::kDoubtful)
      << "workers make the directory, and not what leads to it";
  fs::create_directory(path);
  std::ofstream(path + "/lock").flush();
  std::ofstream(path + "/three.1.new") << "1";
  std::ofstream(path + "/one.object") << "12345";
  std::ofstream(path + "/two.object") << "123";
  fs::permissions(path, fs::perms::owner_all);
  const Finding found = CheckFragmentCache(path);
  EXPECT_EQ(found.verdict, Verdict::kGood);
  EXPECT_EQ(found.fact, path + " has 2 compiled fragments, 8 B");
  fs::permissions(path, fs::perms::all);
  const Finding open = CheckFragmentCache(path);
  EXPECT_EQ(open.verdict, Verdict::kDoubtful);
  EXPECT_THAT(open.fact, HasSubstr("chmod"));
  EXPECT_THAT(open.remedy, HasSubstr("each worker compiles for itself"));
}

}  // namespace
}  // namespace lockstep::cli
