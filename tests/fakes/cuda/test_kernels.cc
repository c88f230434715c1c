// The kernels of //tests/gpu_module, as the fake does them: later than a caller would like, and
// without harm to the process.
#include <chrono>
#include <thread>

#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/gpu_module/bodies.h"

namespace {

using lockstep::testing::IllegalAddress;
using lockstep::testing::Scale;
using lockstep::testing::Spin;

constexpr int kIllegalAddress = 700;  // CUDA_ERROR_ILLEGAL_ADDRESS

struct LateScale : Scale {
  void Run(uint64_t first, uint64_t step) const {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    Scale::Run(first, step);
  }
};

// As Spin, but other threads get on.
struct LazySpin : Spin {
  void Run(uint64_t, uint64_t) const {
    while (!IsOver()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

struct Breakdown : IllegalAddress {
  static void Run(uint64_t, uint64_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    fake_cuda_set_sticky_error(kIllegalAddress);
  }
};

}  // namespace

FAKE_CUDA_KERNEL(test_scale, LateScale);
FAKE_CUDA_KERNEL(test_spin, LazySpin);
FAKE_CUDA_KERNEL(test_illegal_address, Breakdown);
