// Lockstep's ranks as processes of their own, for the benchmarks of collectives.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"
#include "runtime/collective/communicator.h"
#include "runtime/tensor/arena.h"
#include "tools/bench/collectives/ranks.h"
#include "tools/bench/collectives/timing.h"
#include "tools/bench/rival_process.h"

namespace lockstep::bench {

inline void RequireOk(const Status& status) { Require(status.ok(), Message(status).c_str()); }

inline Deadline Soon() { return Deadline::After(std::chrono::seconds(20)); }

// Names that no other run has.
inline std::vector<std::string> ArenaNames(int ranks) {
  std::vector<std::string> names;
  for (int rank = 0; rank < ranks; ++rank) {
    names.push_back("lockstep-bench-" + std::to_string(getpid()) + "-" + std::to_string(rank));
  }
  return names;
}

// Waits for this process's children: the exit code, 0 if all ended well.
inline int WaitForRanks(int ranks) {
  bool all_well = true;
  for (int rank = 0; rank < ranks; ++rank) {
    int status = 0;
    Require(wait(&status) > 0, "wait");
    all_well = all_well && status == 0;
  }
  return all_well ? 0 : 1;
}

// Runs `rank` for each, in a process of its own: the exit code.
template <typename Rank>
int RunRanks(int ranks, Rank&& rank) {
  for (int i = 0; i < ranks; ++i) {
    const pid_t pid = fork();
    Require(pid >= 0, "fork");
    if (pid != 0) continue;
    LimitLife(kRankLifeSeconds);
    rank(i);
    // Not std::exit: what the parent has is the parent's to remove.
    std::_Exit(0);
  }
  return WaitForRanks(ranks);
}

// The main function of a program that starts its ranks by itself, and its command line:
// RANKS KIND ELEMENT SECONDS SIZE... (operation.h, timing.h).
template <typename Main>
int MainOfRanks(const char* program, int least_ranks, int argc, char** argv, Main&& main) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 0;
  Operation operation;
  double seconds = 0;
  std::vector<size_t> sizes_bytes;
  if (ranks < least_ranks || ranks > kMostRanks || argc < 4 ||
      !ParseOperation(argv[2], argv[3], &operation) ||
      !ParseTimingArguments(argc - 4, argv + 4, &seconds, &sizes_bytes)) {
    std::fprintf(stderr, "usage: %s RANKS KIND ELEMENT SECONDS SIZE...\n", program);
    return 2;
  }
  return main(ranks, operation, seconds, sizes_bytes);
}

class CommunicatorRanks final : public Ranks {
 public:
  CommunicatorRanks(std::unique_ptr<collective::Communicator> communicator,
                    std::shared_ptr<tensor::Arena> arena)
      : communicator_(std::move(communicator)), arena_(std::move(arena)) {}

  int rank() const override { return communicator_->rank(); }
  int size() const override { return communicator_->size(); }

  void* Allocate(size_t size_bytes) override {
    auto storage = arena_->Allocate(size_bytes);
    RequireOk(storage.status());
    storages_.push_back(*storage);
    return std::memset((*storage)->data(), 0, size_bytes);
  }
  // One deadline for the barrier and what is timed after it: reading the clock is no part of
  // either.
  void Barrier() override {
    deadline_ = Soon();
    RequireOk(communicator_->Barrier(deadline_));
  }
  void Run(const Operation& operation, const void* send, void* recv, size_t count) override {
    const DType dtype = TypeOf(operation.element);
    const auto ranks = static_cast<size_t>(size());
    const size_t part = count / ranks;
    counts_.assign(ranks, static_cast<int64_t>(part));
    const auto sends = [&](size_t elements) { return ConstBuffer{send, elements, dtype}; };
    const auto receives = [&](size_t elements) { return Buffer{recv, elements, dtype}; };
    RequireOk([&] {
      switch (operation.kind) {
        case Kind::kAllReduce:
          return communicator_->AllReduce(sends(count), receives(count), collective::ReduceOp::kSum,
                                          deadline_);
        case Kind::kReduceScatter:
          return communicator_->ReduceScatter(sends(count), receives(part), counts_,
                                              collective::ReduceOp::kSum, deadline_);
        case Kind::kBroadcast:
          return communicator_->Broadcast(rank() == 0 ? sends(count) : ConstBuffer(),
                                          receives(count), 0, deadline_);
        case Kind::kAllGather:
          return communicator_->AllGather(sends(part), receives(count), counts_, deadline_);
        case Kind::kAllToAll:
          return communicator_->AllToAll(sends(count), counts_, receives(count), counts_,
                                         deadline_);
      }
      return InvalidArgument("no operation");
    }());
  }
  double Max(double value) override {
    const Buffer buffer = ViewOf(&value, 1);
    RequireOk(communicator_->AllReduce(buffer, buffer, collective::ReduceOp::kMax, Soon()));
    return value;
  }

 private:
  static DType TypeOf(Element element) {
    return element == Element::kFloat32    ? DType::kFloat32
           : element == Element::kBFloat16 ? DType::kBFloat16
                                           : DType::kInt8;
  }

  std::unique_ptr<collective::Communicator> communicator_;
  std::shared_ptr<tensor::Arena> arena_;
  Deadline deadline_ = Soon();
  std::vector<int64_t> counts_;  // each rank's part
  std::vector<std::shared_ptr<tensor::Storage>> storages_;
};

}  // namespace lockstep::bench
