// What one host's memory can do for a collective: ranks that read each other's buffers, mapped by
// all of them, and meet before and after. No arguments to check, no deadlines, no peers that end.
//
//     collective_floor RANKS KIND ELEMENT SECONDS SIZE...      see operation.h and timing.h
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "tools/bench/collectives/communicator_ranks.h"
#include "tools/bench/collectives/sums.h"
#include "tools/bench/collectives/timing.h"
#include "tools/bench/rival_process.h"

namespace lockstep::bench {
namespace {

// Up to this size each rank combines all by itself; above, each its part, and copies the others'.
constexpr size_t kAllByEachBytes = size_t{4} << 10;
constexpr int kSpins = 64;

struct alignas(128) Word {
  std::atomic<uint32_t> value;
};
struct Shared {
  Word rounds[kMostRanks];  // in which each has arrived
  std::atomic<double> values[kMostRanks];
};

class FloorRanks final : public Ranks {
 public:
  // `area`: of rank 0; those of the others, of as many bytes, follow.
  FloorRanks(Shared& shared, std::byte* area, size_t area_bytes, int rank, int size)
      : shared_(shared),
        area_bytes_(area_bytes),
        next_(area + static_cast<size_t>(rank) * area_bytes),
        rank_(rank),
        size_(size),
        must_yield_(size > static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN))),
        scratch_(kAllByEachBytes) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void* Allocate(size_t size_bytes) override {
    std::byte* const memory = next_;
    next_ += (size_bytes + kPage - 1) / kPage * kPage;
    return std::memset(memory, 0, size_bytes);
  }

  void Barrier() override {
    const uint32_t round = ++round_;
    shared_.rounds[rank_].value.store(round, std::memory_order_seq_cst);
    for (int i = 1; i < size_; ++i) {
      const std::atomic<uint32_t>& other = shared_.rounds[Other(i)].value;
      for (int spins = 0; static_cast<int32_t>(other.load(std::memory_order_acquire) - round) < 0;
           ++spins) {
        if (must_yield_ || spins >= kSpins) sched_yield();
      }
    }
  }

  void Run(const Operation& operation, const void* send, void* recv, size_t count) override {
    switch (operation.element) {
      case Element::kFloat32:
        return RunOn(operation.kind, static_cast<const float*>(send), static_cast<float*>(recv),
                     count);
      case Element::kBFloat16:
        return RunOn(operation.kind, static_cast<const uint16_t*>(send),
                     static_cast<uint16_t*>(recv), count);
      case Element::kInt8:
        return RunOn(operation.kind, static_cast<const int8_t*>(send), static_cast<int8_t*>(recv),
                     count);
    }
  }

  double Max(double value) override {
    shared_.values[rank_].store(value);
    Barrier();
    double most = value;
    for (int rank = 0; rank < size_; ++rank) {
      most = std::max(most, shared_.values[rank].load());
    }
    Barrier();
    return most;
  }

 private:
  static constexpr size_t kPage = size_t{2} << 20;

  template <typename T>
  const T* Of(int rank, const T* mine) const {
    const ptrdiff_t distance = static_cast<ptrdiff_t>(area_bytes_) * (rank - rank_);
    return reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(mine) + distance);
  }
  // The ranks after this one come first, so that not all read from the same.
  int Other(int i) const { return (rank_ + i) % size_; }

  template <typename T>
  void Combine(T* to, const T* mine, size_t count) {
    // In blocks, so that what is added up stays in the nearest cache.
    constexpr size_t kBlock = (size_t{8} << 10) / sizeof(T);
    for (size_t at = 0; at < count; at += kBlock) {
      const size_t length = std::min(kBlock, count - at);
      // Its own first, which `to` may be.
      Add(to + at, mine + at, Of(Other(1), mine) + at, length);
      for (int i = 2; i < size_; ++i) Add(to + at, to + at, Of(Other(i), mine) + at, length);
    }
  }

  template <typename T>
  void RunOn(Kind kind, const T* send, T* recv, size_t count) {
    const size_t part = count / static_cast<size_t>(size_);
    const auto me = static_cast<size_t>(rank_);
    Barrier();
    switch (kind) {
      case Kind::kAllReduce:
        if (count * sizeof(T) <= kAllByEachBytes) {
          T* const sum = reinterpret_cast<T*>(scratch_.data());
          Combine(sum, send, count);
          Barrier();
          std::memcpy(recv, sum, count * sizeof(T));
          return;
        }
        Combine(recv + me * part, send + me * part, part);
        Barrier();
        for (int i = 1; i < size_; ++i) {
          const auto other = static_cast<size_t>(Other(i));
          std::memcpy(recv + other * part, Of(Other(i), recv) + other * part, part * sizeof(T));
        }
        break;
      case Kind::kReduceScatter:
        Combine(recv, send + me * part, part);
        break;
      case Kind::kBroadcast:
        if (rank_ != 0) std::memcpy(recv, Of(0, send), count * sizeof(T));
        break;
      case Kind::kAllGather:
        for (int i = 0; i < size_; ++i) {
          const auto other = static_cast<size_t>(Other(i));
          std::memcpy(recv + other * part, Of(Other(i), send), part * sizeof(T));
        }
        break;
      case Kind::kAllToAll:
        for (int i = 0; i < size_; ++i) {
          const auto other = static_cast<size_t>(Other(i));
          std::memcpy(recv + other * part, Of(Other(i), send) + me * part, part * sizeof(T));
        }
        break;
    }
    Barrier();
  }

  Shared& shared_;
  const size_t area_bytes_;
  std::byte* next_;
  uint32_t round_ = 0;
  const int rank_;
  const int size_;
  const bool must_yield_;
  std::vector<std::byte> scratch_;
};

void* Share(size_t size_bytes) {
  void* const pages = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  Require(pages != MAP_FAILED, "map memory");
  madvise(pages, size_bytes, MADV_HUGEPAGE);
  return pages;
}

int Main(int rank_count, const Operation& operation, double seconds,
         const std::vector<size_t>& sizes_bytes) {
  LimitLife(kRankLifeSeconds);
  auto* const shared = new (Share(sizeof(Shared))) Shared();
  const size_t largest_bytes = *std::max_element(sizes_bytes.begin(), sizes_bytes.end());
  // An input and a result, each rounded up to whole pages.
  const size_t area_bytes = (largest_bytes / (size_t{2} << 20) + 1) * (size_t{4} << 20);
  auto* const areas = static_cast<std::byte*>(Share(static_cast<size_t>(rank_count) * area_bytes));
  return RunRanks(rank_count, [&](int rank) {
    FloorRanks ranks(*shared, areas, area_bytes, rank, rank_count);
    Timing(ranks, operation, seconds).Run(sizes_bytes);
  });
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep::bench;
  return MainOfRanks("collective_floor", /*least_ranks=*/2, argc, argv, Main);
}
