// How an allreduce is timed: the same rules for Lockstep's ranks and for their rivals'.
//
// Every rank rewrites its input before each operation, as a program does that has just computed it;
// untouched inputs stay in the peers' caches and flatter the rank that reads them there. Then a
// barrier, then the operation, in place, is timed. The time of a size is the mean over many
// operations on the slowest rank. Once per size the result is compared with the right one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tools/bench/rival_process.h"

namespace lockstep::bench {

inline constexpr unsigned kRankLifeSeconds = 90;

// The ranks of one system, seen from one of them.
class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Memory whose pages exist, of the kind that this system works best with. Freed with the ranks.
  virtual float* Allocate(size_t count) = 0;
  virtual void Barrier() = 0;
  // In place, sum.
  virtual void AllReduce(float* data, size_t count) = 0;
  virtual double Max(double value) = 0;
};

class AllReduceTiming {
 public:
  // `seconds` is about how long one size may take.
  AllReduceTiming(Ranks& ranks, double seconds) : ranks_(ranks), seconds_(seconds) {}

  // Rank 0 prints two lines: "SIZE_us" is the operation's time, "SIZE_read_us" includes that every
  // rank then reads its result once.
  void Run(const std::vector<size_t>& sizes_bytes) {
    const size_t largest = *std::max_element(sizes_bytes.begin(), sizes_bytes.end());
    data_ = ranks_.Allocate(largest / sizeof(float));
    for (const size_t size : sizes_bytes) Measure(size);
  }

 private:
  void Measure(size_t size_bytes) {
    const size_t count = size_bytes / sizeof(float);
    Verify(count);
    (void)Repeat(count, 1);
    // The slowest rank's time decides for all how often to repeat. In parts, because a machine that
    // others use may become many times as slow meanwhile.
    const double one = ranks_.Max(Repeat(count, kTrials).whole / kTrials);
    const int part =
        static_cast<int>(std::clamp(seconds_ / one / kParts, 1.0, kMaxRepeats / kParts));
    Sums sums;
    int repeats = 0;
    for (int i = 0; i < kParts && ranks_.Max(sums.whole) < seconds_; ++i) {
      sums += Repeat(count, part);
      repeats += part;
    }
    const double operation = ranks_.Max(sums.operation) / repeats;
    const double and_reading = ranks_.Max(sums.and_reading) / repeats;
    if (ranks_.rank() != 0) return;
    std::printf("%zu_us %.3f\n%zu_read_us %.3f\n", size_bytes, operation * 1e6, size_bytes,
                and_reading * 1e6);
    std::fflush(stdout);
  }

  void Verify(size_t count) {
    const auto value = [](int rank, size_t i) {
      return static_cast<float>((rank + 1) * static_cast<int>(i % 13));
    };
    for (size_t i = 0; i < count; ++i) data_[i] = value(ranks_.rank(), i);
    ranks_.AllReduce(data_, count);
    // The sum of value(rank, i) over the ranks.
    const int ranks_sum = ranks_.size() * (ranks_.size() + 1) / 2;
    for (size_t i = 0; i < count; ++i) {
      Require(data_[i] == value(ranks_sum - 1, i), "the result of the allreduce is right");
    }
  }

  struct Sums {
    double operation = 0;
    double and_reading = 0;
    double whole = 0;  // rewriting and the barrier too

    Sums& operator+=(const Sums& other) {
      operation += other.operation;
      and_reading += other.and_reading;
      whole += other.whole;
      return *this;
    }
  };

  Sums Repeat(size_t count, int repeats) {
    using Clock = std::chrono::steady_clock;
    const auto seconds = [](Clock::time_point from, Clock::time_point to) {
      return std::chrono::duration<double>(to - from).count();
    };
    Sums sums;
    const auto begin = Clock::now();
    for (int i = 0; i < repeats; ++i) {
      std::fill_n(data_, count, static_cast<float>(i % 7));
      ranks_.Barrier();
      const auto start = Clock::now();
      ranks_.AllReduce(data_, count);
      const auto done = Clock::now();
      float sum = 0;
      for (size_t k = 0; k < count; k += kLineFloats) sum += data_[k];
      // The sum is used, so the reads take place.
      asm volatile("" : : "x"(sum) : "memory");
      const auto read = Clock::now();
      sums.operation += seconds(start, done);
      sums.and_reading += seconds(start, read);
    }
    sums.whole = seconds(begin, Clock::now());
    return sums;
  }

  static constexpr size_t kLineFloats = 16;  // one cache line
  static constexpr int kTrials = 3;
  static constexpr int kParts = 8;
  static constexpr double kMaxRepeats = 5000;

  Ranks& ranks_;
  const double seconds_;
  float* data_ = nullptr;
};

// Command line of the ranks' programs: SECONDS SIZE... (bytes, multiples of 4).
inline bool ParseTimingArguments(int argc, char** argv, double* seconds,
                                 std::vector<size_t>* sizes_bytes) {
  if (argc < 3) return false;
  *seconds = std::atof(argv[1]);
  for (int i = 2; i < argc; ++i) {
    sizes_bytes->push_back(std::strtoull(argv[i], nullptr, 10));
    if (sizes_bytes->back() == 0 || sizes_bytes->back() % sizeof(float) != 0) return false;
  }
  return *seconds > 0;
}

}  // namespace lockstep::bench
