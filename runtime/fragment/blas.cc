#include "runtime/fragment/blas.h"

#include <dlfcn.h>
#include <semaphore.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string_view>

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
  int (*get_parallel)() = nullptr;
  // How many may call it at once. One that was built without threads shares its buffers among them,
  // and gives them wrong numbers; others have buffers for a number of threads that they were built
  // for, and end the process when there are no more.
  unsigned most_callers = 1;
  // One that was built for OpenMP asks that, in each call, how many threads the caller may have.
  bool asks_openmp = false;
};
// What openblas_get_parallel() answers.
constexpr int kWithoutThreads = 0;
constexpr int kByOpenMp = 2;

// "OpenBLAS 0.3.21 ... MAX_THREADS=64". It has twice as many buffers, and not fewer than 50.
unsigned MostCallers(std::string_view config) {
  constexpr unsigned kLeast = 32;
  constexpr std::string_view kSetting = "MAX_THREADS=";
  unsigned threads = 0;
  if (const size_t at = config.find(kSetting); at != std::string_view::npos) {
    const std::string_view number = config.substr(at + kSetting.size());
    std::from_chars(number.data(), number.data() + number.size(), threads);
  }
  return std::max(threads, kLeast);
}

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
    blas.status = Unavailable("there is no ", kFile, ": install libopenblas0-pthread");
  } else if (!Load(library, "cblas_sgemm", blas.sgemm) ||
             !Load(library, "cblas_dgemm", blas.dgemm) ||
             !Load(library, "cblas_sgemv", blas.sgemv) ||
             !Load(library, "cblas_dgemv", blas.dgemv) ||
             !Load(library, "openblas_set_num_threads", blas.set_threads) ||
             !Load(library, "openblas_get_parallel", blas.get_parallel)) {
    blas.status = Unavailable(kFile, " lacks functions of CBLAS");
  } else {
    blas.set_threads(1);
    char* (*get_config)() = nullptr;
    const bool tells = Load(library, "openblas_get_config", get_config);
    if (blas.get_parallel() != kWithoutThreads) {
      blas.most_callers = MostCallers(tells ? get_config() : "");
    }
    blas.asks_openmp = blas.get_parallel() == kByOpenMp;
  }
  return blas;
}

const OpenBlas& Blas() {
  static const auto* const blas = new OpenBlas(LoadOpenBlas());
  return *blas;
}

// Held while OpenBLAS computes: no more than it can serve.
class Turn {
 public:
  explicit Turn(const OpenBlas& blas) : free_(FreeOf(blas)) {
    while (sem_wait(free_) != 0) {
    }
  }
  ~Turn() { sem_post(free_); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  static sem_t* FreeOf(const OpenBlas& blas) {
    static sem_t* const free = [&] {
      auto* const made = new sem_t;
      sem_init(made, /*pshared=*/0, blas.most_callers);
      return made;
    }();
    return free;
  }

  sem_t* const free_;
};

// OpenMP counts for each thread that calls it; elsewhere it is enough to have said it once.
void LeaveOneThread(const OpenBlas& blas) {
  static std::mutex mutex;
  thread_local bool is_said = false;
  if (!blas.asks_openmp || is_said) return;
  const std::lock_guard lock(mutex);
  blas.set_threads(1);
  is_said = true;
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
// What threads take: some milliseconds. Products by a vector wait for memory, and take as long for
// less.
constexpr double kWorkOfPart = int64_t{1} << 28;
constexpr double kWorkOfVectorPart = int64_t{1} << 21;
// Of rows of the result, and of columns: fewer would waste what OpenBLAS packs or, by a vector, the
// order in which a transposed matrix lies.
constexpr int64_t kSmallestPart = 384;
constexpr int64_t kSmallestTransposedPart = 2048;
// Multiplications that are worth another thread.
constexpr double kWorkForThreads = int64_t{1} << 20;
// OpenBLAS counts in int.
constexpr int64_t kMaxInt = std::numeric_limits<int>::max();

// Of all products of the batch, rows by rows. What a part is depends on sizes alone, so results
// have the same bits however many threads compute them.
template <typename T>
class Parts {
 public:
  Parts(const OpenBlas& blas, const LockstepFragmentMatmul& matmul)
      : blas_(blas),
        matmul_(matmul),
        is_by_vector_(matmul.n == 1 && matmul.b_transposed == 0),
        part_k_(std::min<int64_t>(matmul.k, 1 << 20)),
        part_n_(PartOf(matmul.n, kSmallestPart,
                       kWorkBetweenPolls / (static_cast<double>(part_k_) * kSmallestPart))),
        part_m_(PartOf(
            matmul.m,
            is_by_vector_ && matmul.a_transposed != 0 ? kSmallestTransposedPart : kSmallestPart,
            (is_by_vector_ ? kWorkOfVectorPart : kWorkOfPart) /
                (static_cast<double>(part_k_) * static_cast<double>(part_n_)))),
        parts_of_product_((matmul.m - 1) / part_m_ + 1) {}

  int32_t Compute(LockstepFragmentContext& context) const {
    const double work = static_cast<double>(matmul_.batches) * static_cast<double>(matmul_.m) *
                        static_cast<double>(matmul_.n) * static_cast<double>(matmul_.k);
    const int64_t count = matmul_.batches * parts_of_product_;
    if (context.parallel != nullptr && work >= kWorkForThreads)
      return context.parallel(&context, &ComputeRange, this, count, 1);
    return ComputeRange(&context, this, 0, count);
  }

 private:
  // How many of `count` are one part: about `wanted`.
  static int64_t PartOf(int64_t count, int64_t smallest, double wanted) {
    const int64_t rows = wanted < 1e9 ? static_cast<int64_t>(wanted) : kMaxInt;
    return std::min({count, kMaxInt, std::max(smallest, rows)});
  }

  static int32_t ComputeRange(LockstepFragmentContext* context, const void* parts, int64_t begin,
                              int64_t end) {
    const auto& self = *static_cast<const Parts*>(parts);
    for (int64_t part = begin; part < end; ++part) {
      const int32_t code = self.ComputePart(*context, part / self.parts_of_product_,
                                            part % self.parts_of_product_ * self.part_m_);
      if (code != LOCKSTEP_FRAGMENT_OK) return code;
    }
    return LOCKSTEP_FRAGMENT_OK;
  }

  // The rows from `i` on of one product, in parts of columns and, last of all, of what is summed
  // up.
  int32_t ComputePart(const LockstepFragmentContext& context, int64_t product, int64_t i) const {
    const T* const a = static_cast<const T*>(matmul_.a) + product * matmul_.a_batch;
    const T* const b = static_cast<const T*>(matmul_.b) + product * matmul_.b_batch;
    T* const c = static_cast<T*>(matmul_.c) + product * matmul_.c_batch + i * matmul_.c_row;
    const int64_t rows = std::min(part_m_, matmul_.m - i);
    for (int64_t j = 0; j < matmul_.n; j += part_n_) {
      const int64_t columns = std::min(part_n_, matmul_.n - j);
      for (int64_t l = 0; l < matmul_.k; l += part_k_) {
        if (*context.abort != 0) return LOCKSTEP_FRAGMENT_ABORTED;
        Multiply(a + (matmul_.a_transposed != 0 ? l * matmul_.a_row + i : i * matmul_.a_row + l),
                 b + (matmul_.b_transposed != 0 ? j * matmul_.b_row + l : l * matmul_.b_row + j),
                 c + j, rows, columns, std::min(part_k_, matmul_.k - l));
      }
    }
    return LOCKSTEP_FRAGMENT_OK;
  }

  void Multiply(const T* a, const T* b, T* c, int64_t m, int64_t n, int64_t k) const {
    const int transpose_a = matmul_.a_transposed != 0 ? kTransposed : kPlain;
    const int transpose_b = matmul_.b_transposed != 0 ? kTransposed : kPlain;
    const auto lda = static_cast<int>(matmul_.a_row);
    const auto ldb = static_cast<int>(matmul_.b_row);
    const auto ldc = static_cast<int>(matmul_.c_row);
    const auto rows = static_cast<int>(m);
    const auto terms = static_cast<int>(k);
    LeaveOneThread(blas_);
    const Turn turn(blas_);
    if (is_by_vector_) {
      GemvOf<T>(blas_)(kRowMajor, transpose_a, matmul_.a_transposed != 0 ? terms : rows,
                       matmul_.a_transposed != 0 ? rows : terms, 1, a, lda, b, ldb, 1, c, ldc);
    } else {
      GemmOf<T>(blas_)(kRowMajor, transpose_a, transpose_b, rows, static_cast<int>(n), terms, 1, a,
                       lda, b, ldb, 1, c, ldc);
    }
  }

  const OpenBlas& blas_;
  const LockstepFragmentMatmul& matmul_;
  const bool is_by_vector_;
  const int64_t part_k_;
  const int64_t part_n_;
  const int64_t part_m_;
  const int64_t parts_of_product_;
};

// A BLAS counts in int, and takes no rows that overlap; vectors whose stride is negative it counts
// from the other end. The compiler gives it no others (runtime/fragment/mlir/matmul.cc).
bool IsForBlas(const LockstepFragmentMatmul& matmul) {
  for (const int64_t stride : {matmul.a_row, matmul.b_row, matmul.c_row}) {
    if (stride < 1 || stride > kMaxInt) return false;
  }
  return matmul.batches > 0 && matmul.m > 0 && matmul.n > 0 && matmul.k > 0;
}

int32_t Matmul(LockstepFragmentContext* context, const LockstepFragmentMatmul* matmul) {
  if (!IsForBlas(*matmul)) return LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS;
  return matmul->is_double != 0 ? Parts<double>(Blas(), *matmul).Compute(*context)
                                : Parts<float>(Blas(), *matmul).Compute(*context);
}

}  // namespace

StatusOr<MatmulFunction> FindBlas() {
  LOCKSTEP_RETURN_IF_ERROR(Blas().status);
  return &Matmul;
}

}  // namespace lockstep::fragment
