// Lockstep's ranks as processes of their own, for the allreduce benchmarks.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"
#include "runtime/collective/communicator.h"
#include "runtime/tensor/arena.h"
#include "tools/bench/allreduce_timing.h"
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

class CommunicatorRanks final : public Ranks {
 public:
  CommunicatorRanks(std::unique_ptr<collective::Communicator> communicator,
                    std::shared_ptr<tensor::Arena> arena)
      : communicator_(std::move(communicator)), arena_(std::move(arena)) {}

  int rank() const override { return communicator_->rank(); }
  int size() const override { return communicator_->size(); }

  float* Allocate(size_t count) override {
    auto storage = arena_->Allocate(count * sizeof(float));
    RequireOk(storage.status());
    storages_.push_back(*storage);
    auto* data = static_cast<float*>((*storage)->data());
    std::fill_n(data, count, 0.0F);
    return data;
  }
  // One deadline for the barrier and what is timed after it: reading the clock is no part of
  // either.
  void Barrier() override {
    deadline_ = Soon();
    RequireOk(communicator_->Barrier(deadline_));
  }
  void AllReduce(float* data, size_t count) override {
    const Buffer buffer = ViewOf(data, count);
    RequireOk(communicator_->AllReduce(buffer, buffer, collective::ReduceOp::kSum, deadline_));
  }
  double Max(double value) override {
    const Buffer buffer = ViewOf(&value, 1);
    RequireOk(communicator_->AllReduce(buffer, buffer, collective::ReduceOp::kMax, Soon()));
    return value;
  }

 private:
  std::unique_ptr<collective::Communicator> communicator_;
  std::shared_ptr<tensor::Arena> arena_;
  Deadline deadline_ = Soon();
  std::vector<std::shared_ptr<tensor::Storage>> storages_;
};

}  // namespace lockstep::bench
