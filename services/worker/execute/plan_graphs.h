// The graphs that a bound plan is executed as on one rank's GPU: its steps, captured once, and
// launched together.
//
// A graph works at addresses, so it fits the inputs that it was captured with. Each execution looks
// which of those it has fit: a few sets of inputs that come by turns have a graph each, and what
// never comes again is never captured.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/collective/device.h"
#include "runtime/tensor/tensor.h"
#include "services/worker/execute/plan_agreement.h"

namespace lockstep::worker {

// What was captured.
//
// Ownership: held by what is under way on the GPU, too, so it is destroyed when no launch of it is.
struct PlanGraph {
  std::string what;  // "plan, steps 0 to 8"
  // The longest that a launch of it has taken on the GPU; 0: it is not known.
  std::chrono::nanoseconds longest{0};
  // Of the communicators that it uses, which end after it: NCCL wants it so.
  std::vector<std::shared_ptr<collective::DeviceConnection>> connections;
  // What functions have returned that is an output of the plan, by the numbers of its buffers.
  std::vector<std::pair<size_t, tensor::Tensor>> returned;
  std::unique_ptr<collective::DeviceGraph> graph;  // destroyed before what it uses
};

// All ranks of a plan choose by what they have in common, so the same place means the same
// execution, and the same capture, on all of them.
//
// Threads: the executing thread.
class PlanGraphs {
 public:
  // Sets of inputs that come by turns, as two that are filled while the other one is read.
  static constexpr size_t kPlaces = 4;

  // `why_not`: why the plan cannot be captured; empty: it can.
  explicit PlanGraphs(std::string why_not) : why_not_(std::move(why_not)) {}

  // Why it is executed step by step; empty: it may be captured.
  const std::string& why_not() const { return why_not_; }
  void GiveUp(std::string why) { why_not_ = std::move(why); }
  // How many graphs there are, and what memory they keep besides the plan's.
  size_t count() const;
  size_t held_bytes() const;

  // What fits inputs that lie there. What this rank tells the others of it.
  void Look(std::vector<const void*> inputs, PlanAgreement::Ready* ready);

  enum class Way { kLaunch, kCapture, kStepByStep };
  struct Choice {
    Way way = Way::kStepByStep;
    size_t place = 0;
  };
  // How to go on, with what all ranks have told. Launched is what all have; captured are inputs
  // that were seen before, which NCCL has connected the ranks for. Others are remembered.
  Choice Choose(const PlanAgreement::Verdict& verdict);

  void Put(size_t place, std::shared_ptr<PlanGraph> graph) {
    places_[place].graph = std::move(graph);
  }
  const std::shared_ptr<PlanGraph>& At(size_t place) const { return places_[place].graph; }

 private:
  struct Place {
    std::vector<const void*> inputs;
    std::shared_ptr<PlanGraph> graph;  // null: they were seen, but not captured
    bool is_used = false;
    uint64_t used_at = 0;  // in executions of the plan
  };

  std::string why_not_;
  std::array<Place, kPlaces> places_;
  std::vector<const void*> looked_at_;
  uint64_t executions_ = 0;
};

}  // namespace lockstep::worker
