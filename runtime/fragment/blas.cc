#include "runtime/fragment/blas.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace lockstep::fragment {
namespace {

// As cblas.h has them, for row-major matrices.
constexpr int kRowMajor = 101;
constexpr int kPlain = 111;
constexpr int kTransposed = 112;
template <typename T>
using Gemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, T alpha,
                      const T* a, int lda, const T* b, int ldb, T beta, T* c, int ldc);
template <typename T>
using Gemv = void (*)(int order, int transpose, int m, int n, T alpha, const T* a, int lda,
                      const T* x, int incx, T beta, T* y, int incy);

struct OpenBlas {
  Status status;
  Gemm<float> sgemm = nullptr;
  Gemm<double> dgemm = nullptr;
  Gemv<float> sgemv = nullptr;
  Gemv<double> dgemv = nullptr;
  void (*set_threads)(int threads) = nullptr;
};

template <typename Function>
bool Load(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

OpenBlas LoadOpenBlas() {
  constexpr char kFile[] = "libopenblas.so.0";
  OpenBlas blas;
  void* const library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    blas.status =
        Unavailable("there is no ", kFile, ": install libopenblas0-serial or libopenblas0-pthread");
  } else if (!Load(library, "cblas_sgemm", blas.sgemm) ||
             !Load(library, "cblas_dgemm", blas.dgemm) ||
             !Load(library, "cblas_sgemv", blas.sgemv) ||
             !Load(library, "cblas_dgemv", blas.dgemv) ||
             !Load(library, "openblas_set_num_threads", blas.set_threads)) {
    blas.status = Unavailable(kFile, " lacks functions of CBLAS");
  } else {
    blas.set_threads(1);
  }
  return blas;
}

const OpenBlas& Blas() {
  static const auto* const blas = new OpenBlas(LoadOpenBlas());
  return *blas;
}

template <typename T>
Gemm<T> GemmOf(const OpenBlas& blas) {
  if constexpr (sizeof(T) == sizeof(double)) return blas.dgemm;
  if constexpr (sizeof(T) == sizeof(float)) return blas.sgemm;
}
template <typename T>
Gemv<T> GemvOf(const OpenBlas& blas) {
  if constexpr (sizeof(T) == sizeof(double)) return blas.dgemv;
  if constexpr (sizeof(T) == sizeof(float)) return blas.sgemv;
}

// Multiplications between two polls: some tens of milliseconds on one core.
constexpr double kWorkBetweenPolls = int64_t{1} << 31;
// A part has as many rows as this at least, and columns: smaller ones would waste what OpenBLAS
// packs.
constexpr int64_t kSmallestPart = 512;
// OpenBLAS counts in int.
constexpr int64_t kMaxInt = std::numeric_limits<int>::max();

// How many rows (of `count`) with `work` multiplications each are one part.
int64_t PartOf(int64_t count, double work) {
  const double rows = kWorkBetweenPolls / work;
  return std::min(
      {count, kMaxInt, std::max(kSmallestPart, rows < 1e9 ? static_cast<int64_t>(rows) : kMaxInt)});
}

bool IsAborted(const LockstepFragmentContext& context) { return *context.abort != 0; }

// One product of the batch, in parts of rows, columns and, last of all, of what is summed up.
template <typename T>
int32_t Multiply(const OpenBlas& blas, const LockstepFragmentContext& context,
                 const LockstepFragmentMatmul& matmul, const T* a, const T* b, T* c) {
  const int transpose_a = matmul.a_transposed != 0 ? kTransposed : kPlain;
  const int transpose_b = matmul.b_transposed != 0 ? kTransposed : kPlain;
  const int64_t part_k = std::min<int64_t>(matmul.k, 1 << 20);
  const int64_t part_n = PartOf(matmul.n, static_cast<double>(part_k) * kSmallestPart);
  const int64_t part_m =
      PartOf(matmul.m, static_cast<double>(part_k) * static_cast<double>(part_n));
  for (int64_t i = 0; i < matmul.m; i += part_m) {
    const int m = static_cast<int>(std::min(part_m, matmul.m - i));
    for (int64_t j = 0; j < matmul.n; j += part_n) {
      const int n = static_cast<int>(std::min(part_n, matmul.n - j));
      for (int64_t l = 0; l < matmul.k; l += part_k) {
        if (IsAborted(context)) return LOCKSTEP_FRAGMENT_ABORTED;
        const int k = static_cast<int>(std::min(part_k, matmul.k - l));
        const T* const a_part =
            a + (matmul.a_transposed != 0 ? l * matmul.a_row + i : i * matmul.a_row + l);
        const T* const b_part =
            b + (matmul.b_transposed != 0 ? j * matmul.b_row + l : l * matmul.b_row + j);
        T* const c_part = c + i * matmul.c_row + j;
        const int lda = static_cast<int>(matmul.a_row);
        if (matmul.n == 1 && matmul.b_transposed == 0) {
          const int rows = matmul.a_transposed != 0 ? k : m;
          const int columns = matmul.a_transposed != 0 ? m : k;
          GemvOf<T>(blas)(kRowMajor, transpose_a, rows, columns, 1, a_part, lda, b_part,
                          static_cast<int>(matmul.b_row), 1, c_part,
                          static_cast<int>(matmul.c_row));
        } else {
          GemmOf<T>(blas)(kRowMajor, transpose_a, transpose_b, m, n, k, 1, a_part, lda, b_part,
                          static_cast<int>(matmul.b_row), 1, c_part,
                          static_cast<int>(matmul.c_row));
        }
      }
    }
  }
  return LOCKSTEP_FRAGMENT_OK;
}

template <typename T>
int32_t MultiplyBatch(const LockstepFragmentContext& context,
                      const LockstepFragmentMatmul& matmul) {
  for (int64_t i = 0; i < matmul.batches; ++i) {
    const int32_t code =
        Multiply(Blas(), context, matmul, static_cast<const T*>(matmul.a) + i * matmul.a_batch,
                 static_cast<const T*>(matmul.b) + i * matmul.b_batch,
                 static_cast<T*>(matmul.c) + i * matmul.c_batch);
    if (code != LOCKSTEP_FRAGMENT_OK) return code;
  }
  return LOCKSTEP_FRAGMENT_OK;
}

int32_t Matmul(LockstepFragmentContext* context, const LockstepFragmentMatmul* matmul) {
  return matmul->is_double != 0 ? MultiplyBatch<double>(*context, *matmul)
                                : MultiplyBatch<float>(*context, *matmul);
}

}  // namespace

StatusOr<MatmulFunction> FindBlas() {
  LOCKSTEP_RETURN_IF_ERROR(Blas().status);
  return &Matmul;
}

Status SetBlasThreads(int threads) {
  LOCKSTEP_RETURN_IF_ERROR(Blas().status);
  if (threads < 1) return InvalidArgument("a product needs at least 1 thread, not ", threads);
  Blas().set_threads(threads);
  return OkStatus();
}

}  // namespace lockstep::fragment
