// Runs CUDA C++ on the host, one thread after the other: the source of a kernel is included after
// this, and becomes a shared object that the fake loads as its image. No thread waits for another,
// so nothing that needs that works.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "tests/fakes/cuda/fake_cuda.h"

// What nvcc knows by itself.
#define __global__ [[maybe_unused]] static
#define __device__ [[maybe_unused]] static
struct FakeIndex {
  unsigned x = 0;
};
inline thread_local FakeIndex threadIdx;
inline thread_local FakeIndex blockIdx;
inline thread_local FakeIndex blockDim;
inline thread_local FakeIndex gridDim;

template <typename T>
T atomicAdd(T* sum, T value) {
  const T before = *sum;
  *sum += value;
  return before;
}

template <auto kKernel>
struct FakeLaunch;
template <typename... Parameters, void (*kKernel)(Parameters...)>
struct FakeLaunch<kKernel> {
  static constexpr size_t kBytes[] = {sizeof(Parameters)...};

  static void Run(const uint64_t* words, unsigned blocks, unsigned threads) {
    gridDim.x = blocks;
    blockDim.x = threads;
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
      for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) {
        RunOne(words, std::index_sequence_for<Parameters...>());
      }
    }
  }

 private:
  template <size_t... kIndex>
  static void RunOne(const uint64_t* words, std::index_sequence<kIndex...>) {
    kKernel(Read<Parameters>(words[kIndex])...);
  }
  template <typename T>
  static T Read(uint64_t word) {
    T value;
    std::memcpy(&value, &word, sizeof value);
    return value;
  }
};

#define FAKE_CUDA_FUNCTION(name)                                                                \
  extern "C" const FakeFunction fake_function_##name;                                           \
  const FakeFunction fake_function_##name = {sizeof FakeLaunch<&name>::kBytes / sizeof(size_t), \
                                             FakeLaunch<&name>::kBytes, FakeLaunch<&name>::Run}
