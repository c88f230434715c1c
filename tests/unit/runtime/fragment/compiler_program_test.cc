#include "runtime/fragment/compiler_program.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "runtime/base/sanitizers.h"
#include "runtime/fragment/compile_codec.h"
#include "tests/unit/runtime/fragment/fake_compiler.h"

namespace lockstep::fragment {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

class CompilerProgramTest : public testing::Test {
 protected:
  static Patience Long() { return {Deadline::After(seconds(60))}; }

  StatusOr<std::string> Compile(const std::string& source, Patience patience = Long(),
                                uint64_t memory_bytes = 0) const {
    CompilerOptions options = fake_.Options();
    options.memory_bytes = memory_bytes;
    const auto program = CompilerProgram::Find(options);
    EXPECT_TRUE(program.ok()) << program.status();
    const std::string request = *EncodeRequest(FakeCompiler::Work(source), Want::kObject);
    auto answer = program->Compile(request, "f.mlir", patience);
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "no process is left behind";
    return answer;
  }

  const FakeCompiler fake_;
};

TEST_F(CompilerProgramTest, AnswersWhatItIsAsked) {
  const auto bytes = Compile("sum");
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto answer =
      DecodeAnswer({reinterpret_cast<const std::byte*>(bytes->data()), bytes->size()}, "f.mlir");
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_TRUE(answer->result.ok()) << answer->result.status();
  EXPECT_EQ(answer->result->signature.ToString(), "sum(int64, float64[?]) -> (float64[?])");
  EXPECT_GT(answer->result->object.size(), 1000u);
}

TEST_F(CompilerProgramTest, SaysWhatItIs) {
  const auto program = CompilerProgram::Find(fake_.Options());
  ASSERT_TRUE(program.ok()) << program.status();
  const auto identity = program->Describe(Long());
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(*identity, (CompilerIdentity{"fake 1", "cpu", "+all"}));
  EXPECT_EQ(CompilerProgram::Find({.program = "/bin/true"})->Describe(Long()).status().code(),
            StatusCode::kInternal)
      << "says nothing";
}

TEST_F(CompilerProgramTest, OneThatIsMissingIsSaid) {
  const Status status = CompilerProgram::Find({.program = "/nonexistent/compiler"}).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status), HasSubstr("fragments are not available: cannot execute "
                                         "/nonexistent/compiler: No such file"));
  setenv("LOCKSTEP_COMPILER", "/nonexistent/other", 1);
  const Status other = CompilerProgram::Find({}).status();
  unsetenv("LOCKSTEP_COMPILER");
  EXPECT_THAT(Message(other), HasSubstr("fragments are not available: $LOCKSTEP_COMPILER is "));
}

TEST_F(CompilerProgramTest, CrashIsAnErrorThatNamesTheSignalAndTheLastWords) {
  const Status status = Compile("crash").status();
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(Message(status), HasSubstr("f.mlir: the fragment compiler was killed by signal 6 "
                                         "(Aborted); it said last: it is all over"));
}

TEST_F(CompilerProgramTest, AnEndWithoutAnAnswerIsAnError) {
  const Status status = Compile("give up").status();
  EXPECT_EQ(status, Internal("f.mlir: the fragment compiler ended with exit code 3; it said last: "
                             "cannot go on"));
}

TEST_F(CompilerProgramTest, OneThatHangsIsKilledAtTheDeadline) {
  const Status status = Compile("hang", {Deadline::After(milliseconds(50))}).status();
  EXPECT_EQ(status,
            DeadlineExceeded("f.mlir: the fragment compiler took too long, and was killed"));
}

TEST_F(CompilerProgramTest, OneThatNeverFallsSilentIsKilledAtTheDeadline) {
  const auto began = Deadline::Clock::now();
  const Status status = Compile("chatter", {Deadline::After(milliseconds(50))}).status();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status;
  EXPECT_LT(Deadline::Clock::now() - began, seconds(3)) << "before its processor time is used up";
}

// Its own limits are lower than what may be asked for.
TEST_F(CompilerProgramTest, ItIsToldWhatItMayUse) {
  const auto arguments = Compile("arguments", {Deadline::After(seconds(100))});
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  const std::string seconds = "--memory-bytes=18446744073709551615\n--cpu-seconds=";
  ASSERT_THAT(*arguments, HasSubstr(seconds));
  // Four times what is left then.
  EXPECT_NEAR(std::stoi(arguments->substr(arguments->find(seconds) + seconds.size())), 360, 40);
}

TEST_F(CompilerProgramTest, OneThatIsGivenUpIsKilledAtOnce) {
  int given_up[2];
  ASSERT_EQ(pipe(given_up), 0);
  ASSERT_EQ(write(given_up[1], "x", 1), 1);
  const Status status = Compile("hang", {Deadline::After(seconds(60)), given_up[0]}).status();
  close(given_up[0]);
  close(given_up[1]);
  EXPECT_EQ(status, Aborted("f.mlir: the fragment compiler was given up, and was killed"));
}

TEST_F(CompilerProgramTest, OneThatAnswersTooMuchIsKilled) {
  const Status status = Compile("too much").status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(status), HasSubstr("answered too much"));
}

TEST_F(CompilerProgramTest, ItsMemoryIsBounded) {
  if (kSanitized) GTEST_SKIP() << "sanitizers map more than any bound, which is why none is set";
  EXPECT_TRUE(Compile("sum", Long(), uint64_t{1} << 30).ok());
  EXPECT_THAT(*Compile("arguments", Long(), uint64_t{8} << 30),
              HasSubstr("--memory-bytes=8589934592\n"));
  const Status status = Compile("memory", Long(), uint64_t{1} << 30).status();
  EXPECT_THAT(Message(status), HasSubstr("killed by signal 6 (Aborted); it said last: "));
  EXPECT_THAT(Message(status), HasSubstr("bad_alloc"));
}

TEST_F(CompilerProgramTest, ItSeesNoEnvironment) {
  setenv("LOCKSTEP_KEY", "lsk_secret", 1);
  setenv("LD_LIBRARY_PATH", "/nonexistent", 1);
  const auto environment = Compile("environment");
  unsetenv("LOCKSTEP_KEY");
  unsetenv("LD_LIBRARY_PATH");
  ASSERT_TRUE(environment.ok()) << environment.status();
  EXPECT_EQ(*environment, "LD_LIBRARY_PATH=/nonexistent\n");
}

}  // namespace
}  // namespace lockstep::fragment
