// The ranks of one system, seen from one of them: what a collective is timed with.
#pragma once

#include <cstddef>

#include "tools/bench/collectives/operation.h"

namespace lockstep::bench {

inline constexpr unsigned kRankLifeSeconds = 90;
inline constexpr int kMostRanks = 64;

class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Memory whose pages exist, of the kind that this system works best with. Freed with the ranks.
  virtual void* Allocate(size_t size_bytes) = 0;
  virtual void Barrier() = 0;
  // `count` elements are the whole: what a rank has (allreduce and broadcast, where `recv` is
  // `send`), sends (reduce-scatter, all-to-all) or receives (allgather, all-to-all). The other side
  // is a rank's part of it, `count` / size().
  virtual void Run(const Operation& operation, const void* send, void* recv, size_t count) = 0;
  virtual double Max(double value) = 0;
};

}  // namespace lockstep::bench
