// Fragments: compiled on every worker, and called on its part of the data. The compiler is a
// stand-in, and what it gives does what its first argument asks for.
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/integration/session_fixture.h"

namespace lockstep::testing {
namespace {

using fragment::Combine;
using fragment::Fragment;
using fragment::Split;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

// See testdata/test_object.cc.
enum Asked : int64_t {
  kSum = 0,
  kDivideByZero = 1,
  kUntilAborted = 2,
  kDouble = 7,
  kPlaces = 8,
};

HostTensor Numbers(int64_t count) {
  std::vector<double> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 1.0);
  return HostTensor::Of<double>({count}, numbers);
}

class FragmentsTest : public SessionFixture {
 protected:
  static Fragment Source(const std::string& text, const std::string& name = "test.mlir") {
    return Unwrap(Fragment::Mlir(text, name));
  }
  CompiledFragment Compile() { return Unwrap(session_->Compile(Source("sum"))); }
  // Of the one result.
  DRef Execute(Asked asked, const FragmentInput& input, const FragmentOutput& output) {
    return Unwrap(session_->Execute(Source("sum"), {{int64_t{asked}}, input}, {output})).front();
  }
  static plan::Layout ByRows(const Shape& shape) {
    return Unwrap(plan::Layout::Make(shape, DType::kFloat64, Unwrap(plan::Mesh::Line({0, 1, 2, 3})),
                                     {plan::Placement::Shard(0)}));
  }
  std::vector<double> Collected(const DRef& ref) {
    return Unwrap(Unwrap(session_->Collect(ref)).Elements<double>());
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, FragmentsTest, ::testing::ValuesIn(AllKinds()), NameOf);

TEST_P(FragmentsTest, RowsAreDealtOutAndSumsAreAdded) {
  const CompiledFragment sum = Compile();
  EXPECT_EQ(sum.signature().ToString(), "sum(int64, float64[?]) -> (float64[?])");
  const DRef parts = Unwrap(session_->Execute(sum, {{int64_t{kSum}}, {Numbers(10), Split::kRows}},
                                              {{Combine::kAdd, Shape{1}}}))
                         .front();
  // 3, 3, 2 and 2 of them.
  EXPECT_EQ(Elements<double>(parts, 0), (std::vector<double>{1 + 2 + 3}));
  EXPECT_EQ(Elements<double>(parts, 3), (std::vector<double>{9 + 10}));
  EXPECT_EQ(Collected(parts), (std::vector<double>{55}));
}

TEST_P(FragmentsTest, RowsArePutTogether) {
  const DRef doubled = Execute(kDouble, {Numbers(10), Split::kRows}, {Combine::kRows, Shape{10}});
  EXPECT_EQ(Elements<double>(doubled, 1), (std::vector<double>{8, 10, 12}));
  EXPECT_EQ(Collected(doubled), (std::vector<double>{2, 4, 6, 8, 10, 12, 14, 16, 18, 20}));
}

// Those without rows contribute what changes nothing.
TEST_P(FragmentsTest, MoreWorkersThanRows) {
  for (const int64_t rows : {0, 1, 2}) {
    const FragmentInput input{Numbers(rows), Split::kRows};
    const DRef placed = Unwrap(session_->Place(Numbers(rows), ByRows({rows})));
    const double sum = static_cast<double>(rows * (rows + 1)) / 2;
    EXPECT_EQ(Collected(Execute(kSum, {placed, Split::kRows}, {Combine::kAdd, Shape{1}})),
              (std::vector<double>{sum}));
    if (rows > 0) {
      const DRef least = Execute(kSum, {placed, Split::kRows}, {Combine::kMin, Shape{1}});
      EXPECT_EQ(Collected(least), (std::vector<double>{1}));
    }
    const DRef doubled = Execute(kDouble, {placed, Split::kRows}, {Combine::kRows, Shape{rows}});
    EXPECT_EQ(Elements<double>(doubled, 3), std::vector<double>());
    EXPECT_EQ(Collected(doubled).size(), static_cast<size_t>(rows));
  }
}

// Each worker has all of it, so all have the same sum, which is not combined.
TEST_P(FragmentsTest, WholeTensorsGiveWholeResults) {
  const DRef sum = Execute(kSum, {Numbers(10)}, {Combine::kNone, Shape{1}});
  EXPECT_EQ(Elements<double>(sum, 2), (std::vector<double>{55}));
  EXPECT_EQ(Collected(sum), (std::vector<double>{55}));
  const Status added =
      session_
          ->Execute(Source("sum"), {{int64_t{kSum}}, {Numbers(10)}}, {{Combine::kAdd, Shape{1}}})
          .status();
  EXPECT_EQ(added.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(added), HasSubstr("no argument is split"));
}

TEST_P(FragmentsTest, PartsKnowWhereTheyLie) {
  const DRef places = Execute(kPlaces, {Numbers(7), Split::kRows}, {Combine::kRows, Shape{7}});
  EXPECT_EQ(Collected(places), (std::vector<double>{0, 1, 2, 3, 4, 5, 6}));
}

// The fragment tells how large its results become: the client asks when it needs to know.
TEST_P(FragmentsTest, ShapesNeedNotBeGiven) {
  const DRef doubled = Execute(kDouble, {Numbers(10), Split::kRows}, {Combine::kRows});
  const DRef sum = Execute(kSum, {doubled, Split::kRows}, {Combine::kAdd});
  EXPECT_EQ(Collected(sum), (std::vector<double>{2 * 55}));
  EXPECT_EQ(Collected(doubled).size(), 10u);
  EXPECT_EQ(Unwrap(session_->LayoutOf(doubled)).shape(), Shape{10});
}

// A result that is distributed is what the next fragment takes, and sums are summed when they are
// needed.
TEST_P(FragmentsTest, ResultsAreArguments) {
  DRef values = Execute(kDouble, {Numbers(10), Split::kRows}, {Combine::kRows, Shape{10}});
  values = Execute(kDouble, {values, Split::kAsPlaced}, {Combine::kRows, Shape{10}});
  const DRef sum = Execute(kSum, {values, Split::kRows}, {Combine::kAdd, Shape{1}});
  const DRef whole = Execute(kDouble, {sum, Split::kNone}, {Combine::kNone, Shape{1}});
  EXPECT_EQ(Elements<double>(whole, 3), (std::vector<double>{2 * 4 * 55}));
}

// What was moved once is used again, unless something else is there by now.
TEST_P(FragmentsTest, WhatIsOverwrittenIsMovedAgain) {
  const auto sum = [&](const DRef& ref) {
    return Collected(Execute(kSum, {ref, Split::kRows}, {Combine::kAdd, Shape{1}}));
  };
  const plan::Layout whole =
      Unwrap(plan::Layout::Make({10}, DType::kFloat64, Unwrap(plan::Mesh::Line({0, 1, 2, 3})),
                                {plan::Placement::Replicate()}));
  const DRef placed = Unwrap(session_->Place(Numbers(10), whole));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sum(placed), (std::vector<double>{55}));
  const HostTensor ones = HostTensor::Of<double>({10}, std::vector<double>(10, 1.0));
  for (Rank rank = 0; rank < kWorkers; ++rank) EXPECT_OK(session_->DebugSet(placed, rank, ones));
  EXPECT_OK(session_->DeclareLayout(placed, whole));
  EXPECT_EQ(sum(placed), (std::vector<double>{10}));
  // A function may write to what it is given, and the session does not know which do.
  Call("lockstep.copy", Call("lockstep.full", Shape{10}, 2.0, DType::kFloat64), placed);
  EXPECT_OK(session_->DeclareLayout(placed, whole));
  EXPECT_EQ(sum(placed), (std::vector<double>{20}));
}

TEST_P(FragmentsTest, WhatDoesNotFitIsRefusedHere) {
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
TEST_P(FragmentsTest, WhatTheCompilerRefusesIsAnErrorOfTheCall) {
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

TEST_P(FragmentsTest, WhatFailsWhileItRunsSaysWhere) {
  Execute(kDivideByZero, {Numbers(10), Split::kRows}, {Combine::kAdd, Shape{1}});
  const Status status = session_->SyncAll();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("test.mlir: `sum` divided an integer by zero"),
                                     HasSubstr("arith.divsi at line 3, column 10")));
  EXPECT_OK(session_->Reset());
}

// The shape that the caller has told is checked against what the fragment makes of its part.
TEST_P(FragmentsTest, AResultOfAnotherSizeNamesTheRank) {
  Execute(kSum, {Numbers(10), Split::kRows}, {Combine::kRows, Shape{10}});
  const Status status = session_->SyncAll();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("rank "), HasSubstr("result 0 of `sum` was to be")));
  EXPECT_OK(session_->Reset());
}

TEST_P(FragmentsTest, ALoopWithoutEndIsEndedByAReset) {
  Execute(kUntilAborted, {Numbers(10), Split::kRows}, {Combine::kAdd, Shape{1}});
  EXPECT_OK(session_->Flush());
  EXPECT_OK(session_->Reset());
  EXPECT_OK(session_->SyncAll());
}

TEST_P(FragmentsTest, AResetForgetsWhatWasCompiled) {
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

// Numbers that change, and what follows from them, are no new call.
TEST_P(FragmentsTest, NumbersDecideHowLargeResultsAre) {
  const CompiledFragment compiled = Compile();
  const DRef placed = Unwrap(session_->Place(Numbers(10), ByRows({10})));
  for (int i = 0; i < 3; ++i) {
    for (const auto& [asked, size] : {std::pair{kSum, 4u}, std::pair{kDouble, 10u}}) {
      const DRef result =
          Unwrap(session_->Execute(compiled, {{int64_t{asked}}, {placed, Split::kRows}},
                                   {{Combine::kRows}}))
              .front();
      EXPECT_EQ(Collected(result).size(), size);
    }
  }
}

TEST_P(FragmentsTest, MoreThanASessionMayHaveIsRefused) {
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
TEST_P(FragmentsTest, WhatIsInNoRegisterIsNotTaken) {
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

TEST_P(FragmentsTest, OneSessionsFragmentIsNotAnothers) {
  const CompiledFragment compiled = Compile();
  Session other = Open(SharedCluster(GetParam()));
  const Status status = other
                            .Execute(compiled, {{int64_t{kSum}}, {Numbers(4), Split::kRows}},
                                     {{Combine::kAdd, Shape{1}}})
                            .status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status), HasSubstr("compiled in another session"));
}

TEST_P(FragmentsTest, SessionsExecuteTheSameFragmentAtOnce) {
  const auto work = [](Session& session, int64_t count) {
    for (int i = 0; i < 20; ++i) {
      const auto sum = session.Execute(
          Source("sum"), {{int64_t{kSum}}, {Numbers(count), Split::kRows}}, {{Combine::kAdd}});
      ASSERT_EQ(sum.status(), OkStatus());
      const HostTensor whole = Unwrap(session.Collect(sum->front()));
      EXPECT_EQ(Unwrap(whole.Elements<double>()).front(),
                static_cast<double>(count * (count + 1) / 2));
    }
  };
  Session other = Open(SharedCluster(GetParam()));
  std::thread beside([&] { work(other, 7); });
  work(*session_, 10);
  beside.join();
}

// What is moved is counted, and what lies as it is wanted is not moved.
TEST_P(FragmentsTest, ALoopMovesNothing) {
  const CompiledFragment compiled = Compile();
  const plan::Layout on_one = Unwrap(plan::Layout::Make(
      {10}, DType::kFloat64, Unwrap(plan::Mesh::Line({0})), {plan::Placement::Replicate()}));
  const DRef data = Unwrap(session_->Place(Numbers(10), on_one));
  DRef sum;
  const auto execute = [&](const FragmentInput& input) {
    sum = Unwrap(session_->Execute(compiled, {{int64_t{kSum}}, input}, {{Combine::kAdd, Shape{1}}}))
              .front();
    return session_->fragment_traffic();
  };
  EXPECT_EQ(session_->fragment_traffic().executions, 0u);
  // Rank 0 keeps its 3 of 10 rows.
  EXPECT_EQ(execute({data, Split::kRows}).moved_bytes, 7 * sizeof(double));
  FragmentTraffic traffic;
  for (int i = 0; i < 1000; ++i) traffic = execute({data, Split::kRows});
  EXPECT_EQ(traffic.moved_bytes, 7 * sizeof(double));
  EXPECT_EQ(traffic.executions, 1001u);
  EXPECT_EQ(traffic.sent_bytes, 0u);
  EXPECT_EQ(Collected(sum), (std::vector<double>{55}));
  // The client's tensor is sent, and dealt out.
  traffic = execute({Numbers(10), Split::kRows});
  EXPECT_EQ(traffic.sent_bytes, 10 * sizeof(double));
  EXPECT_EQ(traffic.moved_bytes, 2 * 7 * sizeof(double));
}

// --- Functions
// ------------------------------------------------------------------------------------

TEST_P(FragmentsTest, AFunctionIsCalledOnParts) {
  const Fragment copy = Unwrap(Fragment::Function("lockstep.copy"));
  for (const int64_t rows : {10, 2}) {
    const DRef copied = Unwrap(session_->Execute(copy, {{Numbers(rows), Split::kRows}},
                                                 {{Combine::kRows, Shape{rows}, DType::kFloat64}}))
                            .front();
    EXPECT_EQ(Elements<double>(copied, 1),
              rows == 10 ? (std::vector<double>{4, 5, 6}) : std::vector<double>{2});
    EXPECT_EQ(Collected(copied).size(), static_cast<size_t>(rows));
    EXPECT_EQ(Unwrap(session_->LayoutOf(copied)), ByRows({rows}));
    // Those without rows are not called, and contribute what changes nothing.
    const DRef added = Unwrap(session_->Execute(copy, {{Numbers(1), Split::kRows}},
                                                {{Combine::kAdd, Shape{1}, DType::kFloat64}}))
                           .front();
    EXPECT_EQ(Elements<double>(added, 3), (std::vector<double>{0}));
    EXPECT_EQ(Collected(added), (std::vector<double>{1}));
  }
}

// What it returns may differ although all are given the same; a number is a tensor, too.
TEST_P(FragmentsTest, NumbersOfAFunctionAreCombined) {
  const CompiledFragment rank =
      Unwrap(session_->Compile(Unwrap(Fragment::Function("lockstep.worker_rank"))));
  EXPECT_EQ(rank.signature().ToString(), "lockstep.worker_rank() -> ()");
  const auto combined = [&](Combine combine) {
    const DRef made =
        Unwrap(session_->Execute(rank, {}, {{combine, Shape{}, DType::kInt64}})).front();
    return Unwrap(Unwrap(session_->Collect(made)).Elements<int64_t>()).front();
  };
  EXPECT_EQ(combined(Combine::kAdd), 0 + 1 + 2 + 3);
  EXPECT_EQ(combined(Combine::kMax), 3);
}

// Whatever each worker has, and a list of what it is to give.
TEST_P(FragmentsTest, AFunctionGivesSeveralResults) {
  const DRef both = Call("lockstep.identity",
                         Value(Value::List{FullOfRank({1}), FullOfRank({2}, DType::kInt32)}));
  const std::vector<DRef> parts = Unwrap(session_->Execute(
      Unwrap(Fragment::Function("lockstep.identity")), {{both, Split::kAsPlaced}},
      {{Combine::kRows, Shape{4}, DType::kFloat32}, {Combine::kAdd, Shape{2}, DType::kInt32}}));
  EXPECT_EQ(Unwrap(Unwrap(session_->Collect(parts[0])).Elements<float>()),
            (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(Unwrap(Unwrap(session_->Collect(parts[1])).Elements<int32_t>()),
            (std::vector<int32_t>{6, 6}));
}

TEST_P(FragmentsTest, AFunctionOfAModuleIsFoundByItsName) {
  const Fragment echo = Unwrap(Fragment::Function("echo"));
  const Status missing = session_->Compile(echo).status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_THAT(Message(missing), HasSubstr("echo"));
  const DRef module = Unwrap(session_->LoadModule(ModuleDirectory() + "/test_module.so"));
  const DRef sum =
      Unwrap(session_->Execute(echo, {7}, {{Combine::kAdd, Shape{}, DType::kInt64}})).front();
  EXPECT_EQ(Unwrap(Unwrap(session_->Collect(sum)).Elements<int64_t>()).front(), 4 * 7);
}

// What it writes to is the register that it was given, or a copy of its own.
TEST_P(FragmentsTest, AFunctionWritesToNoCopyThatOthersAreGiven) {
  const Fragment copy = Unwrap(Fragment::Function("lockstep.copy"));
  const auto sum = [&](const DRef& ref, Split split) {
    return Elements<double>(
               Execute(kSum, {ref, split},
                       {split == Split::kNone ? Combine::kNone : Combine::kAdd, Shape{1}}),
               0)
        .front();
  };
  const HostTensor ones = HostTensor::Of<double>({10}, std::vector<double>(10, 1.0));
  const DRef rows = Unwrap(session_->Place(Numbers(10), ByRows({10})));
  EXPECT_EQ(sum(rows, Split::kNone), 55);  // whose copy is kept
  (void)Unwrap(session_->Execute(copy, {ones, {rows, Split::kNone}}, {}));
  EXPECT_EQ(sum(rows, Split::kNone), 55);
  EXPECT_EQ(Collected(rows).back(), 10);
  (void)Unwrap(session_->Execute(copy, {{ones, Split::kRows}, {rows, Split::kAsPlaced}}, {}));
  EXPECT_EQ(sum(rows, Split::kNone), 10);
  EXPECT_EQ(Collected(rows).back(), 1);
}

TEST_P(FragmentsTest, WhatAFunctionDoesNotFitIsSaid) {
  const Fragment copy = Unwrap(Fragment::Function("lockstep.copy"));
  const FragmentInput rows{Numbers(10), Split::kRows};
  const auto refused = [&](const FragmentOutput& output) {
    const Status status = session_->Execute(copy, {rows}, {output}).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    return Message(status);
  };
  // Here, as far as that is known.
  EXPECT_THAT(refused({Combine::kRows}), HasSubstr("say shape and dtype with the call"));
  EXPECT_THAT(refused({Combine::kColumns, Shape{10}, DType::kFloat64}),
              HasSubstr("cannot be combined by columns"));
  EXPECT_THAT(refused({Combine::kAdd, Shape{10}, DType::kBool}), HasSubstr("of truths"));
  EXPECT_OK(session_->SyncAll());
  // And what it returns, where it has run.
  (void)Unwrap(session_->Execute(copy, {rows}, {{Combine::kRows, Shape{10}, DType::kFloat32}}));
  const Status status = session_->SyncAll();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("lockstep.copy: result 0: by the call it is "),
                                     HasSubstr("rank "), HasSubstr("float64")));
  EXPECT_OK(session_->Reset());
}

TEST_P(FragmentsTest, SessionsDoNotWaitForOneAnothersCompilers) {
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

// --- On clusters of their own --------------------------------------------------------------------

class FragmentsOwnClusterTest : public OwnClusterFixture {
 protected:
  StatusOr<std::vector<DRef>> Execute(Asked asked) {
    return session_->Execute(Unwrap(Fragment::Mlir("sum", "test.mlir")),
                             {{int64_t{asked}}, {Numbers(10), Split::kRows}},
                             {{Combine::kAdd, Shape{1}}});
  }
};

class FragmentsOffTest : public FragmentsOwnClusterTest {
 protected:
  ClusterOptions OwnOptions() override {
    ClusterOptions options;
    options.workers = 2;
    options.controller.fragments = "off";
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, FragmentsOffTest, ::testing::Values(ClusterKind::kTcpThreads),
                         NameOf);

TEST_P(FragmentsOffTest, NothingIsCompiledAndTheSessionGoesOn) {
  const Status status = Execute(kSum).status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(Message(status), HasSubstr("fragments are off in this cluster"));
  // The name of a function is no code.
  EXPECT_OK(session_->Compile(Unwrap(Fragment::Function("lockstep.copy"))).status());
  EXPECT_OK(session_->SyncAll());
}

class FragmentsWithoutCompilerTest : public FragmentsOwnClusterTest {
 protected:
  ClusterOptions OwnOptions() override {
    ClusterOptions options;
    options.workers = 2;
    options.worker.compiler = "/nonexistent/lockstep-compiler";
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, FragmentsWithoutCompilerTest,
                         ::testing::Values(ClusterKind::kLocalThreads), NameOf);

TEST_P(FragmentsWithoutCompilerTest, WorkersSayWhatIsMissing) {
  const Status status = Execute(kSum).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status), HasSubstr("fragments are not available: "));
  EXPECT_OK(session_->SyncAll());
}

// One worker, because what an arena gives is there, whether it is written or not.
class FragmentsLargeTest : public OwnClusterFixture {
 protected:
  void SetUp() override {
    if (std::getenv("LOCKSTEP_DEVICE") != nullptr) GTEST_SKIP() << "copied to a GPU, it takes long";
    ClusterOptions options;
    options.workers = 1;
    options.worker.arena_bytes = size_t{3} << 30;
    SessionOptions session = Options();
    session.num_groups = 1;
    Start(options, session);
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, FragmentsLargeTest,
                         ::testing::Values(ClusterKind::kLocalThreads), NameOf);

TEST_P(FragmentsLargeTest, AResultIsLargerThanTwoGigabytes) {
  constexpr int64_t kMany = (int64_t{2} << 30) / 8 + 10;
  const DRef result = Unwrap(session_->Execute(Unwrap(Fragment::Mlir("sum")), {{kMany}, Numbers(1)},
                                               {{Combine::kNone}}))
                          .front();
  const DRef last = Call("lockstep.slice", result, 0, kMany - 1, kMany);
  EXPECT_EQ(Elements<double>(last, 0), (std::vector<double>{1}));
}

class FragmentsLossTest : public FragmentsOwnClusterTest {};
INSTANTIATE_TEST_SUITE_P(Clusters, FragmentsLossTest,
                         ::testing::Values(ClusterKind::kLocalProcesses), NameOf);

// Those that go on end their loops, too; what was compiled is compiled again, on all.
TEST_P(FragmentsLossTest, AWorkerThatIsLostWhileTheyRunIsReplaced) {
  Session other = Open(*cluster_);
  (void)Unwrap(Execute(kUntilAborted));
  EXPECT_OK(session_->Flush());
  ASSERT_EQ(kill(cluster_->worker_pids()[1], SIGKILL), 0);
  EXPECT_THAT(Message(session_->SyncAll()), HasSubstr("rank 1"));
  EXPECT_OK(cluster_->ReplaceWorker(1));
  for (Session* session : {session_.get(), &other}) {
    EXPECT_OK(session->AwaitWorkers(std::chrono::seconds(30)));
    EXPECT_OK(session->Reset());
  }
  EXPECT_OK(other.SyncAll());
  const DRef sum = Unwrap(Execute(kSum)).front();
  EXPECT_EQ(Unwrap(Unwrap(session_->Collect(sum)).Elements<double>()), (std::vector<double>{55}));
}

}  // namespace
}  // namespace lockstep::testing
