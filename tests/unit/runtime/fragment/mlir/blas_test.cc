// The context's matmul() by OpenBLAS, where it computes in parts.
#include "runtime/fragment/blas.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace lockstep::fragment {
namespace {

// c += a * b, where row i of a is i % 5 and column j of b is j % 7: each element of c is k * (i %
// 5) * (j % 7).
void CheckProduct(MatmulFunction matmul, int64_t m, int64_t n, int64_t k) {
  std::vector<double> a(m * k), b(k * n), c(m * n, 1);
  for (int64_t i = 0; i < m * k; ++i) a[i] = static_cast<double>(i / k % 5);
  for (int64_t i = 0; i < k * n; ++i) b[i] = static_cast<double>(i % n % 7);
  volatile int32_t abort = 0;
  LockstepFragmentContext context{};
  context.abort = &abort;
  const LockstepFragmentMatmul product{1,        0,        0, 1, m, n, k, a.data(),
                                       b.data(), c.data(), k, n, n, 0, 0, 0};
  ASSERT_EQ(matmul(&context, &product), LOCKSTEP_FRAGMENT_OK);
  int64_t wrong = 0;
  for (int64_t i = 0; i < m * n; ++i) {
    wrong += c[i] != 1 + static_cast<double>(k * (i / n % 5) * (i % n % 7)) ? 1 : 0;
  }
  EXPECT_EQ(wrong, 0) << m << "x" << k << "x" << n;
  abort = 1;
  EXPECT_EQ(matmul(&context, &product), LOCKSTEP_FRAGMENT_ABORTED);
}

TEST(FragmentBlasTest, PartsOfAProductMakeUpTheWhole) {
  const StatusOr<MatmulFunction> matmul = FindBlas();
  if (!matmul.ok()) GTEST_SKIP() << Message(matmul.status());
  CheckProduct(*matmul, 3, 2, 4);
  CheckProduct(*matmul, 600, 600, 8192);       // parts of rows and of columns
  CheckProduct(*matmul, 3, 1, (1 << 20) + 5);  // by a vector, and parts of what is summed up
}

// Some builds of OpenBLAS share their buffers among callers.
TEST(FragmentBlasTest, ThreadsComputeAtTheSameTime) {
  const StatusOr<MatmulFunction> matmul = FindBlas();
  if (!matmul.ok()) GTEST_SKIP() << Message(matmul.status());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) CheckProduct(*matmul, 12, 11, 13);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(FragmentBlasTest, StridesThatABlasDoesNotKnowAreRefused) {
  const StatusOr<MatmulFunction> matmul = FindBlas();
  if (!matmul.ok()) GTEST_SKIP() << Message(matmul.status());
  const double a = 2;
  double c = 0;
  LockstepFragmentContext context{};
  for (const int64_t stride : {int64_t{-1}, int64_t{0}, (int64_t{1} << 32) + 1}) {
    const LockstepFragmentMatmul product{1, 0, 0, 1, 1, 1, 1, &a, &a, &c, 1, stride, 1, 0, 0, 0};
    EXPECT_EQ((*matmul)(&context, &product), LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS) << stride;
  }
}

}  // namespace
}  // namespace lockstep::fragment
