#include "tests/fakes/cuda/capture.h"

#include <utility>

namespace lockstep::fake_cuda {

size_t Graph::Add(std::function<void()> work, std::set<size_t> after) {
  nodes_.push_back({std::move(work), std::move(after)});
  return nodes_.size() - 1;
}

bool Graph::IsAfter(size_t node, size_t other) const {
  if (node == other) return true;
  // A node comes after such that were put in before it.
  for (const size_t before : nodes_[node].after) {
    if (before >= other && IsAfter(before, other)) return true;
  }
  return false;
}

void Graph::Run() const {
  std::vector<size_t> missing(nodes_.size());
  std::vector<std::vector<size_t>> followers(nodes_.size());
  std::set<size_t> ready;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    missing[i] = nodes_[i].after.size();
    for (const size_t before : nodes_[i].after) followers[before].push_back(i);
    if (missing[i] == 0) ready.insert(i);
  }
  while (!ready.empty()) {
    const size_t next = *ready.rbegin();
    ready.erase(next);
    nodes_[next].work();
    for (const size_t follower : followers[next]) {
      if (--missing[follower] == 0) ready.insert(follower);
    }
  }
}

CUresult Capture::Add(CUstream stream, std::function<void()> work) {
  if (is_invalidated_) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  tails_[stream] = {graph_->Add(std::move(work), tails_[stream])};
  return CUDA_SUCCESS;
}

bool Capture::AllAreJoined() const {
  const std::set<size_t>& end = tails_.at(origin_);
  for (const auto& [stream, tail] : tails_) {
    for (const size_t node : tail) {
      bool is_joined = false;
      for (const size_t last : end) is_joined |= graph_->IsAfter(last, node);
      if (!is_joined) return false;
    }
  }
  return true;
}

CUresult Capture::End(CUstream stream, const std::function<void(CUstream)>& forget,
                      std::shared_ptr<const Graph>* graph) {
  if (stream != origin_) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (mode_ != CU_STREAM_CAPTURE_MODE_RELAXED && !IsOfThisThread()) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  is_active_ = false;
  for (const auto& [captured, tail] : tails_) forget(captured);
  if (is_invalidated_) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!AllAreJoined()) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *graph = graph_;
  return CUDA_SUCCESS;
}

}  // namespace lockstep::fake_cuda
