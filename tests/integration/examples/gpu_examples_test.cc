// The examples on GPU workers: by `device: cuda` alone, and with the losses of CPU workers.
#include <algorithm>
#include <cstdlib>

#include "runtime/cuda/gpu.h"
#include "tests/integration/examples/examples_fixture.h"
#include "tests/support/gpu.h"

namespace lockstep::examples {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class GpuExamplesTest : public ExamplesTest {
 protected:
  void SetUp() override {
    LOCKSTEP_SKIP_WITHOUT_GPU();
#ifdef LOCKSTEP_FAKE_GPU
    // Programs run in a directory of their own.
    const auto path_of = [](const char* path) { return std::filesystem::absolute(path).string(); };
    const std::string libraries = path_of("tests/fakes/cuda") + ":" + path_of("tests/fakes/nccl");
    setenv("LD_LIBRARY_PATH", libraries.c_str(), /*overwrite=*/1);
    setenv("FAKE_CUDA_KERNELS", path_of("tests/fakes/cuda/example_kernels.so").c_str(), 1);
#endif
  }
  // As many workers as there are GPUs for, but no more than the test wants.
  static std::string Workers(int wanted) {
    const auto gpus = cuda::ListGpus();
    return std::to_string(std::min<size_t>(gpus.ok() ? gpus->size() : 1, wanted));
  }
};

TEST_F(GpuExamplesTest, DigitsHasTheLossCurveOfCpus) {
  const std::vector<double> on_cpu = Train({"--workers", "1"});
  for (const int workers : {1, 2, 3}) {
    SCOPED_TRACE(std::to_string(workers) + " workers");
    ExpectSameCurve(Train({"--device", "cuda", "--workers", Workers(workers)}), on_cpu);
  }
  SCOPED_TRACE("2 processes");
  ExpectSameCurve(Train({"--device", "cuda", "--workers", Workers(2), "--processes"}), on_cpu);
}

TEST_F(GpuExamplesTest, TensorParallelBlockEqualsTheUnsplitOne) {
  for (const int workers : {1, 3, 4}) {
    EXPECT_THAT(
        Run(kTensorParallel, {"--device", "cuda", "--workers", Workers(workers), "--repeat", "1"}),
        AllOf(HasSubstr("8 heads over " + Workers(workers) + " worker"),
              HasSubstr(Workers(workers) == "3" ? "not as a plan: the workers do not divide heads"
                                                : "as a plan: the same in every bit, ")));
  }
}

TEST_F(GpuExamplesTest, AnEpochAsAPlanEqualsItsCalls) {
  EXPECT_THAT(Run(kDigits, {"--device", "cuda", "--workers", Workers(2), "--epochs", "2", "--quiet",
                            "--plan"}),
              HasSubstr("\nas a plan: the same in every bit, "));
}

TEST_F(GpuExamplesTest, BothRunOnAClusterThatIsConfiguredSo) {
  const std::string endpoint = Up("gpus", {"--workers", Workers(2), "--set", "worker.device=cuda"});
  ASSERT_FALSE(HasFailure());
  ExpectSameCurve(Train({"--connect", endpoint}), Train({"--workers", "2"}));
  EXPECT_THAT(Run(kTensorParallel, {"--connect", endpoint, "--repeat", "1"}),
              HasSubstr("8 heads over " + Workers(2) + " worker"));
  Run(kLockstep, {"down", "gpus"});
}

}  // namespace
}  // namespace lockstep::examples
