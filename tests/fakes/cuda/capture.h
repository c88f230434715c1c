// Captures of fake streams, and the graphs that come of them.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace lockstep::fake_cuda {

// Some work of a graph, done once with each launch.
struct Node {
  std::function<void()> work;
  std::set<size_t> after;
};

class Graph {
 public:
  size_t Add(std::function<void()> work, std::set<size_t> after);
  // `node` comes after `other`, directly or not.
  bool IsAfter(size_t node, size_t other) const;
  // Does everything, in an order that the dependencies leave free: what was put in last comes as
  // early as it may, so that what lacks a dependency is wrong.
  void Run() const;

 private:
  std::vector<Node> nodes_;
};

// What one cuStreamBeginCapture() has begun.
//
// Threads: one at a time; driver.h's mutex sees to that.
class Capture {
 public:
  Capture(CUstream origin, CUstreamCaptureMode mode) : mode_(mode), origin_(origin) {
    tails_[origin] = {};
  }

  CUstreamCaptureMode mode() const { return mode_; }
  bool is_active() const { return is_active_; }
  bool is_invalidated() const { return is_invalidated_; }
  void Invalidate() { is_invalidated_ = true; }
  bool IsOfThisThread() const { return thread_ == std::this_thread::get_id(); }

  CUresult Add(CUstream stream, std::function<void()> work);
  // What the stream's next work comes after.
  const std::set<size_t>& TailOf(CUstream stream) { return tails_[stream]; }
  // It comes after this, too; with the first of it, the stream is captured, too.
  void LetFollow(CUstream stream, const std::set<size_t>& tail) {
    tails_[stream].insert(tail.begin(), tail.end());
  }
  // No stream is captured any more: they are told to `forget`.
  CUresult End(CUstream stream, const std::function<void(CUstream)>& forget,
               std::shared_ptr<const Graph>* graph);

 private:
  bool AllAreJoined() const;

  const CUstreamCaptureMode mode_;
  const CUstream origin_;
  const std::thread::id thread_ = std::this_thread::get_id();
  const std::shared_ptr<Graph> graph_ = std::make_shared<Graph>();
  std::map<CUstream, std::set<size_t>> tails_;
  bool is_active_ = true;
  bool is_invalidated_ = false;
};

// A graph as it is launched.
struct Executable {
  std::shared_ptr<const Graph> graph;
  std::atomic<int> launches_under_way{0};
};

}  // namespace lockstep::fake_cuda
