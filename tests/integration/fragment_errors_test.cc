// What is refused of fragments, what fails while they are compiled and while they run, and that the
// session goes on.
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/integration/fragments_fixture.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class FragmentErrorsTest : public FragmentsFixture {};
INSTANTIATE_TEST_SUITE_P(Clusters, FragmentErrorsTest, ::testing::ValuesIn(AllKinds()), NameOf);

TEST_P(FragmentErrorsTest, WhatDoesNotFitIsRefusedHere) {
  const CompiledFragment sum = Compile();
  const auto message = [&](const std::vector<FragmentInput>& inputs,
                           const std::vector<FragmentOutput>& outputs) {
    const Status status = session_->Execute(sum, inputs, outputs).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    return Message(status);
  };
  const FragmentInput number = int64_t{kSum};
  const FragmentInput numbers{Numbers(4), Split::kRows};
  const FragmentOutput added{Combine::kAdd, Shape{1}};
  EXPECT_THAT(message({number}, {added}), HasSubstr("`sum` has 2 arguments, and 1 is given"));
  EXPECT_THAT(message({number, numbers, number}, {added}), HasSubstr("3 are given"));
  EXPECT_THAT(message({{1.5}, numbers}, {added}),
              HasSubstr("argument 0 of `sum`: it is int64, and a floating-point number is given"));
  EXPECT_THAT(message({number, {Numbers(4), Split::kColumns}}, {added}),
              HasSubstr("cannot be split by columns"));
  EXPECT_THAT(
      message({number, {HostTensor::Of<float>({2}, std::vector<float>{1, 2}), Split::kRows}},
              {added}),
      HasSubstr("float32 is given"));
  EXPECT_EQ(session_->Execute(CompiledFragment(), {}, {}).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_OK(session_->SyncAll());
}

// One error, which says where, and not one of each rank; the session goes on.
TEST_P(FragmentErrorsTest, WhatTheCompilerRefusesIsAnErrorOfTheCall) {
  const Status wrong = session_->Compile(Source("wrong", "kmeans.mlir")).status();
  EXPECT_EQ(wrong.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Message(wrong), "kmeans.mlir:3:10: 'arith.addf': operand types differ");
  const Status crash = session_->Compile(Source("crash")).status();
  EXPECT_EQ(crash.code(), StatusCode::kInternal);
  EXPECT_THAT(Message(crash), AllOf(HasSubstr("rank "), HasSubstr("it is all over")));
  EXPECT_OK(session_->SyncAll());
  EXPECT_EQ(Collected(Execute(kSum, {Numbers(3), Split::kRows}, {Combine::kAdd, Shape{1}})),
            (std::vector<double>{6}));
}

TEST_P(FragmentErrorsTest, WhatFailsWhileItRunsSaysWhere) {
  Execute(kDivideByZero, {Numbers(10), Split::kRows}, {Combine::kAdd, Shape{1}});
  const Status status = session_->SyncAll();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("test.mlir: `sum` divided an integer by zero"),
                                     HasSubstr("arith.divsi at line 3, column 10")));
  EXPECT_OK(session_->Reset());
}

// The shape that the caller has told is checked against what the fragment makes of its part.
TEST_P(FragmentErrorsTest, AResultOfAnotherSizeNamesTheRank) {
  Execute(kSum, {Numbers(10), Split::kRows}, {Combine::kRows, Shape{10}});
  const Status status = session_->SyncAll();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("rank "), HasSubstr("result 0 of `sum` was to be")));
  EXPECT_OK(session_->Reset());
}

TEST_P(FragmentErrorsTest, ALoopWithoutEndIsEndedByAReset) {
  Execute(kUntilAborted, {Numbers(10), Split::kRows}, {Combine::kAdd, Shape{1}});
  EXPECT_OK(session_->Flush());
  EXPECT_OK(session_->Reset());
  EXPECT_OK(session_->SyncAll());
}

TEST_P(FragmentErrorsTest, AResetForgetsWhatWasCompiled) {
  const CompiledFragment sum = Compile();
  EXPECT_OK(session_->Reset());
  const std::vector<FragmentInput> inputs = {{int64_t{kSum}}, {Numbers(4), Split::kRows}};
  const std::vector<FragmentOutput> outputs = {{Combine::kAdd, Shape{1}}};
  const Status status = session_->Execute(sum, inputs, outputs).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status), HasSubstr("test.mlir was compiled; compile it again"));
  // One that is given itself is compiled again.
  EXPECT_EQ(Collected(Execute(kSum, {Numbers(4), Split::kRows}, outputs.front())),
            (std::vector<double>{10}));
}

TEST_P(FragmentErrorsTest, MoreThanASessionMayHaveIsRefused) {
  constexpr int64_t kMany = int64_t{1} << 40;
  (void)Unwrap(session_->Execute(Source("sum"), {{kMany}, Numbers(1)}, {{Combine::kNone}}));
  const Status status = session_->SyncAll();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(Message(status), HasSubstr("test.mlir"));
  EXPECT_OK(session_->Reset());
  EXPECT_EQ(Collected(Execute(kSum, {Numbers(3), Split::kRows}, {Combine::kAdd, Shape{1}})),
            (std::vector<double>{6}));
}

// One that was never written, or of another session; neither does harm.
TEST_P(FragmentErrorsTest, WhatIsInNoRegisterIsNotTaken) {
  const FragmentOutput added{Combine::kAdd, Shape{1}};
  EXPECT_EQ(session_->Execute(Source("sum"), {{int64_t{kSum}}, {DRef(), Split::kRows}}, {added})
                .status()
                .code(),
            StatusCode::kInvalidArgument);
  Session other = Open(SharedCluster(GetParam()));
  const DRef foreign = Unwrap(other.Place(Numbers(10), ByRows({10})));
  const Status status =
      session_->Execute(Source("sum"), {{int64_t{kSum}}, {foreign, Split::kRows}}, {added})
          .status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("belongs to session"));
  // The call that should have written it has failed.
  const DRef never = Execute(kDivideByZero, {Numbers(4), Split::kRows}, {Combine::kRows, Shape{4}});
  EXPECT_FALSE(session_->SyncAll().ok());
  EXPECT_OK(session_->Reset());
  (void)Execute(kSum, {never, Split::kRows}, added);
  EXPECT_EQ(session_->SyncAll().code(), StatusCode::kNotFound);
  EXPECT_OK(session_->Reset());
}

TEST_P(FragmentErrorsTest, OneSessionsFragmentIsNotAnothers) {
  const CompiledFragment compiled = Compile();
  Session other = Open(SharedCluster(GetParam()));
  const Status status = other
                            .Execute(compiled, {{int64_t{kSum}}, {Numbers(4), Split::kRows}},
                                     {{Combine::kAdd, Shape{1}}})
                            .status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status), HasSubstr("compiled in another session"));
}

TEST_P(FragmentErrorsTest, SessionsDoNotWaitForOneAnothersCompilers) {
  Session other = Open(SharedCluster(GetParam()));
  std::atomic<bool> ended{false};
  std::thread hangs([&] {
    EXPECT_FALSE(session_->Compile(Source("hang")).ok());
    ended = true;
  });
  const auto compile = [&](Session& session) {
    return session.Execute(Source("sum"), {{int64_t{kSum}}, {Numbers(4), Split::kRows}},
                           {{Combine::kAdd, Shape{1}}});
  };
  EXPECT_OK(other.SyncAll());
  EXPECT_OK(session_->SyncAll());
  // The first may come before there is anything to give up.
  do {
    EXPECT_OK(session_->Reset());
  } while (!ended);
  hangs.join();
  const DRef sum = Unwrap(compile(other)).front();
  EXPECT_EQ(Unwrap(Unwrap(other.Collect(sum)).Elements<double>()), (std::vector<double>{10}));
}

}  // namespace
}  // namespace lockstep::testing
