// Fragments of CUDA C++ that tests send. NVRTC compiles them for real GPUs; for the fake ones the
// host's compiler does (host_kernels.cc).

__device__ int64_t first_element() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ int64_t all_threads() { return int64_t{gridDim.x} * blockDim.x; }

// lockstep: scale(x: float64[n], by: float64) -> (y: float64[n])
__global__ void scale(const double* x, double by, double* y, int64_t n) {
  for (int64_t i = first_element(); i < n; i += all_threads()) y[i] = x[i] * by;
}

// lockstep: sum(x: float64[n, k]) -> (sums: float64[k]) over n * k
__global__ void sum(const double* x, double* sums, int64_t n, int64_t k) {
  for (int64_t i = first_element(); i < n * k; i += all_threads()) atomicAdd(&sums[i % k], x[i]);
}

// Scores of the rows of a matrix, as many as its parts have.
// lockstep: scores(x: float32[n, k],
//                  w: float32[k], add: bool) -> (y: float32[n])
__global__ void scores(const float* x, const float* w, bool add, float* y, int64_t n, int64_t k) {
  for (int64_t row = first_element(); row < n; row += all_threads()) {
    float score = add ? 1 : 0;
    for (int64_t i = 0; i < k; ++i) score += x[row * k + i] * w[i];
    y[row] = score;
  }
}

// lockstep: places(x: float64[n from first of whole]) -> (y: int64[n], flags: bool[n], all: int64[])
__global__ void places(const double*, int64_t* y, bool* flags, int64_t* all, int64_t n,
                       int64_t first, int64_t whole) {
  const int64_t i = first_element();
  if (i == 0) *all = whole;
  if (i >= n) return;
  y[i] = first + i;
  flags[i] = i == 0;
}

// lockstep: repeat(x: float64, count: int32) -> (y: float64[count], z: float64[m])
__global__ void repeat(double x, int count, double* y, double* z, int64_t m) {
  for (int64_t i = first_element(); i < count; i += all_threads()) y[i] = x;
  for (int64_t i = first_element(); i < m; i += all_threads()) z[i] = -x;
}

// Writes where nothing is, where there is a number to write.
// lockstep: crash(x: float64[n], when: float64) -> (y: float64[n])
__global__ void crash(const double* x, double when, double* y, int64_t n) {
  for (int64_t i = first_element(); i < n; i += all_threads()) {
    if (x[i] == when) {
#ifdef __CUDACC_RTC__
      *reinterpret_cast<volatile double*>(uint64_t{1} << 46) = x[i];
#else
      fake_cuda_set_sticky_error(700);
#endif
    }
    y[i] = x[i];
  }
}
