// How a collective is timed: the same rules for Lockstep's ranks and for their rivals'.
//
// Every rank rewrites its input before each operation, as a program does that has just computed it;
// untouched inputs stay in the peers' caches and flatter the rank that reads them there. Then a
// barrier, then the operation is timed. The time of a size is the mean over many operations on the
// slowest rank. Once per size the result is compared with the right one.
#pragma once

#include <cstddef>
#include <vector>

#include "tools/bench/collectives/operation.h"
#include "tools/bench/collectives/ranks.h"

namespace lockstep::bench {

class Timing {
 public:
  // `seconds` is about how long one size may take.
  Timing(Ranks& ranks, const Operation& operation, double seconds)
      : ranks_(ranks), operation_(operation), seconds_(seconds) {}

  // Rank 0 prints two lines for each size of the whole (Ranks::Run): "SIZE_us" is the operation's
  // time, "SIZE_read_us" includes that every rank then reads its result once.
  void Run(const std::vector<size_t>& sizes_bytes);

 private:
  struct Sums {
    double operation = 0;
    double and_reading = 0;
    double whole = 0;  // rewriting and the barrier too

    Sums& operator+=(const Sums& other);
  };

  void Measure(size_t size_bytes);
  void Verify(size_t count);
  // What `rank` puts into its input, and what belongs into the result of this one. Sums of ten
  // ranks are exact in bfloat16, and fit an int8; for more they wrap alike.
  int Input(int rank, size_t i) const { return (3 * rank + static_cast<int>(i % 5)) % 11; }
  int Expected(size_t i, size_t part) const;
  Sums Repeat(size_t count, int repeats);
  // A broadcast has the root's alone.
  bool HasInput() const { return operation_.kind != Kind::kBroadcast || ranks_.rank() == 0; }
  // Elements of the input, and of the result, if the whole has `count`.
  size_t InputCount(size_t count) const;
  size_t ResultCount(size_t count) const;
  void Fill(size_t count, uint32_t bits);

  Ranks& ranks_;
  const Operation operation_;
  const double seconds_;
  void* input_ = nullptr;
  void* result_ = nullptr;
};

// The end of a program's command line: SECONDS SIZE... Sizes are bytes, multiples of an element's
// and of 4, which each rank has a part of.
bool ParseTimingArguments(int argc, char** argv, double* seconds, std::vector<size_t>* sizes_bytes);

}  // namespace lockstep::bench
