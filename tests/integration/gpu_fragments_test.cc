// Fragments of CUDA C++: kernels.cu, sent to workers with GPUs, against what the host computes. On
// fake GPUs a stand-in compiles them, which has what the host's compiler has made of the same
// source.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/fragment/plan_call.h"
#include "runtime/plan/program.h"
#include "tests/integration/gpu_fixture.h"
#include "tests/support/files.h"
#include "tests/support/patience.h"

namespace lockstep::testing {
namespace {

using fragment::Combine;
using fragment::Fragment;
using fragment::Split;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kSource[] = "tests/cuda_fragments/kernels.cu";

class GpuFragmentsTest : public OwnClusterFixture {
 protected:
  ClusterOptions OwnOptions() override {
    ClusterOptions options;
    options.worker.device_memory_bytes = size_t{64} << 20;
#ifdef LOCKSTEP_FAKE_GPU
    options.worker.cuda_compiler =
        std::filesystem::absolute("tests/cuda_fragments/fake_cuda_compiler");
#else
    options.worker.cuda_compiler =
        std::filesystem::absolute("services/compiler/cuda/lockstep-cuda-compiler");
    if (const char* const nvrtc = std::getenv("LOCKSTEP_NVRTC"))
      options.worker.nvrtc_library = nvrtc;
#endif
    return options;
  }
  void SetUp() override {
    OwnClusterFixture::SetUp();
#ifndef LOCKSTEP_FAKE_GPU
    if (IsSkipped()) return;
    const Status compiled = session_->Compile(Kernel("scale")).status();
    if (compiled.code() == StatusCode::kFailedPrecondition) GTEST_SKIP() << compiled;
#endif
  }

  static Fragment Kernel(const std::string& kernel) {
    return Unwrap(Fragment::Cuda(support::ReadFile(kSource), kernel, "kernels.cu"));
  }
  std::vector<DRef> Execute(const std::string& kernel, const std::vector<FragmentInput>& inputs,
                            const std::vector<FragmentOutput>& outputs) {
    return Unwrap(session_->Execute(Kernel(kernel), inputs, outputs));
  }
  template <typename T>
  std::vector<T> Collected(const DRef& ref) {
    return Unwrap(Unwrap(session_->Collect(ref)).template Elements<T>());
  }
  static std::vector<double> Sequence(int64_t count) {
    std::vector<double> numbers(static_cast<size_t>(count));
    std::iota(numbers.begin(), numbers.end(), 1.0);
    return numbers;
  }
  static HostTensor Numbers(int64_t count) {
    return HostTensor::Of<double>({count}, Sequence(count));
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, GpuFragmentsTest, ::testing::ValuesIn(GpuKinds()), NameOf);

// Also with more workers than rows, whose sums of nothing change nothing.
TEST_P(GpuFragmentsTest, KernelsComputeWhatTheHostDoes) {
  for (const int64_t rows : {1, 3, 1000}) {
    std::vector<double> expected = Sequence(rows);
    for (double& number : expected) number *= 0.5;
    const DRef half =
        Execute("scale", {{Numbers(rows), Split::kRows}, 0.5}, {{Combine::kRows}}).front();
    EXPECT_EQ(Collected<double>(half), expected);

    std::vector<double> matrix = Sequence(rows * 3);
    std::vector<double> sums(3);
    for (size_t i = 0; i < matrix.size(); ++i) sums[i % 3] += matrix[i];
    const DRef added = Execute("sum", {{HostTensor::Of<double>({rows, 3}, matrix), Split::kRows}},
                               {{Combine::kAdd}})
                           .front();
    EXPECT_EQ(Collected<double>(added), sums);
  }
}

TEST_P(GpuFragmentsTest, ResultsAreArgumentsAndStayThere) {
  constexpr int64_t kRows = 50;
  constexpr int64_t kColumns = 7;
  std::vector<float> matrix(kRows * kColumns);
  for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<float>(i % 11) - 5;
  const std::vector<float> weights = {1, -2, 0.5, 4, 0, 3, -1};
  std::vector<float> expected(kRows, 1);
  for (size_t i = 0; i < matrix.size(); ++i) {
    expected[i / kColumns] += matrix[i] * weights[i % kColumns];
  }
  const DRef scores = Execute("scores",
                              {{HostTensor::Of<float>({kRows, kColumns}, matrix), Split::kRows},
                               {HostTensor::Of<float>({kColumns}, weights)},
                               true},
                              {{Combine::kRows}})
                          .front();
  // Whole numbers and halves: exact in any order.
  EXPECT_EQ(Collected<float>(scores), expected);

  DRef x = Execute("scale", {{Numbers(kRows), Split::kRows}, 2.0}, {{Combine::kRows}}).front();
  for (int i = 0; i < 3; ++i) {
    x = Execute("scale", {{x, Split::kAsPlaced}, 2.0}, {{Combine::kRows}}).front();
  }
  std::vector<double> sixteen = Sequence(kRows);
  for (double& number : sixteen) number *= 16;
  EXPECT_EQ(Collected<double>(x), sixteen);
}

// Sums begin as zeros in each execution, in memory of the plan that was written before.
TEST_P(GpuFragmentsTest, PlansCallKernels) {
  const std::vector<Rank> ranks = {0, 1, 2, 3};
  const auto layout = [&](const Shape& shape, plan::Placement placement) {
    return Unwrap(
        plan::Layout::Make(shape, DType::kFloat64, Unwrap(plan::Mesh::Line(ranks)), {placement}));
  };
  const plan::Layout rows = layout({6, 3}, plan::Placement::Shard(0));
  const CompiledFragment kernel = Unwrap(session_->Compile(Kernel("sum")));
  plan::ProgramBuilder program;
  const plan::ValueId x = program.Input("x", rows);
  const plan::ValueId sums = Unwrap(CallFragment(program, "sum", kernel.signature(), ranks,
                                                 {{x, Split::kRows}}, {{Combine::kAdd, Shape{3}}}))
                                 .results.front();
  program.Output("sums", program.Reshard(sums, layout({3}, plan::Placement::Replicate())));
  const DRef input = Unwrap(session_->Place(HostTensor::Of<double>({6, 3}, Sequence(18)), rows));
  BoundPlan plan = Unwrap(session_->Bind(
      Unwrap(program.Build()), {.inputs = {{"x", input}}, .fragments = {{"sum", kernel}}}));
  for (int i = 0; i < 3; ++i) {
    EXPECT_OK(plan.Execute());
    EXPECT_EQ(Collected<double>(Unwrap(plan.Output("sums"))), (std::vector<double>{51, 57, 63}));
  }
}

TEST_P(GpuFragmentsTest, PartsKnowWhereTheyLie) {
  const std::vector<DRef> results = Execute("places", {{Numbers(10), Split::kRows}},
                                            {{Combine::kRows}, {Combine::kRows}, {Combine::kMax}});
  EXPECT_EQ(Collected<int64_t>(results[0]), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(Collected<int64_t>(results[2]), (std::vector<int64_t>{10}));
  // The first of each rank's three, three, two and two.
  EXPECT_EQ(Unwrap(session_->Collect(results[1])).data, std::string("\1\0\0\1\0\0\1\0\1\0", 10));
}

TEST_P(GpuFragmentsTest, SizesMayBeArgumentsOrTold) {
  const std::vector<DRef> results =
      Execute("repeat", {1.5, 3}, {{Combine::kNone}, {Combine::kNone, Shape{2}}});
  EXPECT_EQ(Collected<double>(results[0]), (std::vector<double>(3, 1.5)));
  EXPECT_EQ(Collected<double>(results[1]), (std::vector<double>(2, -1.5)));
  const DRef other =
      Execute("repeat", {2.5, 1}, {{Combine::kNone}, {Combine::kNone, Shape{2}}}).front();
  EXPECT_EQ(Collected<double>(other), (std::vector<double>{2.5}));
}

TEST_P(GpuFragmentsTest, ErrorsOfASourceSayWhere) {
  const auto error = [&](const std::string& source) {
    const Status status = session_->Compile(Unwrap(Fragment::Cuda(source, "f", "f.cu"))).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return Message(status);
  };
  EXPECT_THAT(error("\n// lockstep: f(x: float16[n]) -> (y: float16[n])"),
              HasSubstr("f.cu:2:19: `float16` is no dtype"));
#ifndef LOCKSTEP_FAKE_GPU
  EXPECT_THAT(error("// lockstep: f(x: float64[n]) -> (y: float64[n])\n"
                    "__global__ void f(const float* x, double* y, int64_t n) {}"),
              HasSubstr("f.cu:1:14: by its signature the kernel takes (const double* x"));
#endif
  EXPECT_OK(session_->SyncAll());
  // Parts of unequal sizes, where the kernel counts on equal ones.
  (void)Unwrap(
      session_->Execute(Kernel("scores"),
                        {{HostTensor::Of<float>({4, 2}, std::vector<float>(8)), Split::kRows},
                         {HostTensor::Of<float>({3}, std::vector<float>(3))},
                         true},
                        {{Combine::kRows, Shape{4}}}));
  EXPECT_THAT(Message(session_->SyncAll()),
              HasSubstr("`k` of `scores` is 2, and dimension 0 of `w` is 3"));
}

// Those that lack something are named, and the session goes on.
TEST_P(GpuFragmentsTest, WhatIsMissingIsSaid) {
  // One after the other: they want the same GPUs.
  const auto restart = [this](const ClusterOptions& options) {
    (void)session_->Close();
    session_.reset();
    cluster_.reset();
    Start(options);
  };
  ClusterOptions options = OwnOptions();
  options.worker.cuda_compiler = "/nonexistent/lockstep-cuda-compiler";
  restart(options);
  const Status status = session_->Compile(Kernel("scale")).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("rank "), HasSubstr("fragments of CUDA source are not available: ")));
  options.worker.device = "cpu";
  restart(options);
  EXPECT_THAT(Message(session_->Compile(Kernel("scale")).status()),
              HasSubstr("fragments of CUDA source are not available: this worker has no GPU"));
  EXPECT_OK(session_->SyncAll());
}

class GpuFragmentsLossTest : public GpuFragmentsTest {};
INSTANTIATE_TEST_SUITE_P(Clusters, GpuFragmentsLossTest,
                         ::testing::Values(ClusterKind::kTcpProcesses), NameOf);

// Rank 2 has the seventh of ten numbers.
TEST_P(GpuFragmentsLossTest, AFaultOfAKernelIsAttributedAndCostsTheWorker) {
  // Nothing else is in flight: a fault is told of the device, and named for the oldest command that
  // is not known to have ended.
  const DRef numbers = Unwrap(session_->Place(Numbers(10), Split::kRows));
  EXPECT_OK(session_->SyncAll());
  (void)Execute("crash", {{numbers, Split::kRows}, 7.0}, {{Combine::kRows}});
  EXPECT_THAT(Message(session_->SyncAll()), AllOf(HasSubstr("rank 2"), HasSubstr("kernels.cu"),
                                                  HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS")));
  EXPECT_OK(cluster_->ReplaceWorker(2));
  EXPECT_OK(session_->AwaitWorkers(support::kLong));
  EXPECT_OK(session_->Reset());
  const DRef same =
      Execute("crash", {{Numbers(10), Split::kRows}, 0.0}, {{Combine::kRows}}).front();
  EXPECT_EQ(Collected<double>(same), Sequence(10));
}

}  // namespace
}  // namespace lockstep::testing
