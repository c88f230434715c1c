// Captures and graphs of the fake driver.
#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

#include "tests/fakes/cuda/driver.h"

using namespace lockstep::fake_cuda;

extern "C" {

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  std::swap(*mode, capture_mode);
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  RETURN_IF_UNBOUND();
  std::lock_guard lock(captures_mutex);
  if (stream->capture != nullptr || own_capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  stream->capture = own_capture = std::make_shared<Capture>(stream, mode);
  if (mode == CU_STREAM_CAPTURE_MODE_GLOBAL) global_capture = own_capture;
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  *graph = nullptr;
  RETURN_IF_UNBOUND();
  std::lock_guard lock(captures_mutex);
  if (stream->capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  const std::shared_ptr<Capture> capture = stream->capture;
  std::shared_ptr<const Graph> captured;
  const CUresult ended = capture->End(
      stream, [](CUstream other) { other->capture = nullptr; }, &captured);
  if (!capture->is_active() && own_capture == capture) own_capture = nullptr;
  if (ended == CUDA_SUCCESS) *graph = new CUgraph_st{std::move(captured)};
  return ended;
}

CUresult cuGraphInstantiate(CUgraphExec* executable, CUgraph graph, unsigned long long) {
  RETURN_IF_UNBOUND();
  RETURN_IF_NOT_OK(CheckThatNothingIsCaptured());
  auto made = std::make_shared<Executable>();
  made->graph = graph->graph;
  *executable = new CUgraphExec_st{std::move(made)};
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  RETURN_IF_UNBOUND();
  RETURN_IF_NOT_OK(CheckThatStreamIsNotCaptured(stream));
  ++graph_launches;
  ++executable->executable->launches_under_way;
  stream->work.Add([launched = executable->executable] {
    launched->graph->Run();
    --launched->launches_under_way;
  });
  return CUDA_SUCCESS;
}

// CUDA puts the end of one that is under way off. Who does so has lost sight of what it is doing.
CUresult cuGraphExecDestroy(CUgraphExec executable) {
  const bool is_under_way = executable->executable->launches_under_way > 0;
  delete executable;
  if (!is_under_way) return CUDA_SUCCESS;
  ++misuses;
  std::fputs("fake libcuda: a graph is destroyed while it is executed\n", stderr);
  return CUDA_ERROR_ILLEGAL_STATE;
}

CUresult cuGraphDestroy(CUgraph graph) {
  delete graph;
  return CUDA_SUCCESS;
}

}  // extern "C"
