// The rival of the data plane: MPI_Allreduce. Started by mpirun, which also carries the tuning.
//
//     mpirun -np RANKS allreduce_mpi SECONDS SIZE...   see allreduce_timing.h
//     mpirun -np RANKS allreduce_mpi                   starts, meets in a barrier, and ends
#include <mpi.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "tools/bench/allreduce_timing.h"
#include "tools/bench/rival_process.h"

namespace lockstep::bench {
namespace {

class MpiRanks final : public Ranks {
 public:
  MpiRanks() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  float* Allocate(size_t count) override {
    const size_t size_bytes = count * sizeof(float);
    void* memory =
        mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    Require(memory != MAP_FAILED, "allocate");
    madvise(memory, size_bytes, MADV_HUGEPAGE);
    auto* data = static_cast<float*>(memory);
    std::fill_n(data, count, 0.0F);
    return data;
  }
  void Barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
  void AllReduce(float* data, size_t count) override {
    MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  double Max(double value) override {
    double result = 0;
    MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return result;
  }

 private:
  int rank_ = 0;
  int size_ = 0;
};

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep::bench;
  double seconds = 0;
  std::vector<size_t> sizes_bytes;
  const bool only_starts = argc == 1;
  if (!only_starts && !ParseTimingArguments(argc, argv, &seconds, &sizes_bytes)) {
    std::fprintf(stderr, "usage: mpirun -np RANKS allreduce_mpi [SECONDS SIZE...]\n");
    return 2;
  }
  LimitLife(kRankLifeSeconds);
  MPI_Init(&argc, &argv);
  MpiRanks ranks;
  if (!only_starts) AllReduceTiming(ranks, seconds).Run(sizes_bytes);
  ranks.Barrier();
  MPI_Finalize();
  return 0;
}
