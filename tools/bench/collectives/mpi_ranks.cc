// The rival of the data plane: MPI's collectives. Started by mpirun, which also carries the tuning.
//
//     mpirun -np RANKS collective_mpi KIND ELEMENT SECONDS SIZE...   see operation.h and timing.h
//     mpirun -np RANKS collective_mpi                  starts, meets in a barrier, and ends
//
// MPI has no bfloat16: its sums are a function of ours (sums.h).
#include <mpi.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "tools/bench/collectives/sums.h"
#include "tools/bench/collectives/timing.h"
#include "tools/bench/rival_process.h"

namespace lockstep::bench {
namespace {

class MpiRanks final : public Ranks {
 public:
  MpiRanks() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Op_create(&SumBf16, /*commute=*/1, &sum_bf16_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void* Allocate(size_t size_bytes) override {
    void* memory =
        mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    Require(memory != MAP_FAILED, "allocate");
    madvise(memory, size_bytes, MADV_HUGEPAGE);
    return std::memset(memory, 0, size_bytes);
  }
  void Barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
  void Run(const Operation& operation, const void* send, void* recv, size_t count) override {
    const MPI_Datatype type = TypeOf(operation.element);
    const MPI_Op sum = operation.element == Element::kBFloat16 ? sum_bf16_ : MPI_SUM;
    const int whole = static_cast<int>(count);
    const int part = whole / size_;
    switch (operation.kind) {
      case Kind::kAllReduce:
        MPI_Allreduce(MPI_IN_PLACE, recv, whole, type, sum, MPI_COMM_WORLD);
        break;
      case Kind::kReduceScatter:
        MPI_Reduce_scatter_block(send, recv, part, type, sum, MPI_COMM_WORLD);
        break;
      case Kind::kBroadcast:
        MPI_Bcast(recv, whole, type, 0, MPI_COMM_WORLD);
        break;
      case Kind::kAllGather:
        MPI_Allgather(send, part, type, recv, part, type, MPI_COMM_WORLD);
        break;
      case Kind::kAllToAll:
        MPI_Alltoall(send, part, type, recv, part, type, MPI_COMM_WORLD);
        break;
    }
  }
  double Max(double value) override {
    double result = 0;
    MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return result;
  }

 private:
  static MPI_Datatype TypeOf(Element element) {
    return element == Element::kFloat32    ? MPI_FLOAT
           : element == Element::kBFloat16 ? MPI_UINT16_T
                                           : MPI_INT8_T;
  }
  static void SumBf16(void* in, void* inout, int* count, MPI_Datatype* /*type*/) {
    auto* const sum = static_cast<uint16_t*>(inout);
    Add(sum, sum, static_cast<const uint16_t*>(in), static_cast<size_t>(*count));
  }

  int rank_ = 0;
  int size_ = 0;
  MPI_Op sum_bf16_ = MPI_OP_NULL;
};

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep::bench;
  Operation operation;
  double seconds = 0;
  std::vector<size_t> sizes_bytes;
  const bool only_starts = argc == 1;
  if (!only_starts && (argc < 3 || !ParseOperation(argv[1], argv[2], &operation) ||
                       !ParseTimingArguments(argc - 3, argv + 3, &seconds, &sizes_bytes))) {
    std::fprintf(stderr, "usage: mpirun -np RANKS collective_mpi [KIND ELEMENT SECONDS SIZE...]\n");
    return 2;
  }
  LimitLife(kRankLifeSeconds);
  MPI_Init(&argc, &argv);
  MpiRanks ranks;
  if (!only_starts) Timing(ranks, operation, seconds).Run(sizes_bytes);
  ranks.Barrier();
  MPI_Finalize();
  return 0;
}
