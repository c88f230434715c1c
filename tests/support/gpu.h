// For tests that need a GPU, real or fake.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "runtime/base/status.h"
#include "runtime/cuda/gpu.h"

namespace lockstep::support {

// Why a test is skipped that needs a GPU, or what comes with it; empty: it is not. Where GPUs are
// required (`tools/dev test --gpu` sets $LOCKSTEP_GPU_REQUIRED) that is a failure.
inline std::string WhyWithoutGpu(const Status& available) {
  if (available.ok()) return "";
  EXPECT_EQ(std::getenv("LOCKSTEP_GPU_REQUIRED"), nullptr) << available;
  return Message(available);
}

}  // namespace lockstep::support

// In a test, or SetUp(): skips where there is no GPU, with the reason. With the fake ones there
// always are.
#ifdef LOCKSTEP_FAKE_GPU
#define LOCKSTEP_SKIP_WITHOUT_GPU() \
  ASSERT_TRUE(::lockstep::cuda::Available().ok()) << ::lockstep::cuda::Available()
#else
#define LOCKSTEP_SKIP_WITHOUT_GPU()                                                            \
  do {                                                                                         \
    const std::string why = ::lockstep::support::WhyWithoutGpu(::lockstep::cuda::Available()); \
    if (!why.empty()) GTEST_SKIP() << why;                                                     \
  } while (false)
#endif
