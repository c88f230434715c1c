#include "runtime/cuda/driver/driver_stream.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/log.h"
#include "runtime/cuda/driver/launch.h"

namespace lockstep::cuda {
namespace {

// Copies of rows are made row by row where they lie further apart than the hardware counts.
constexpr size_t kLargestPitch = size_t{1} << 30;

CUevent HandleOf(const collective::DeviceEvent& event) {
  return static_cast<const DriverEvent&>(event).handle();
}
CUdeviceptr AddressOf(const void* address) { return reinterpret_cast<CUdeviceptr>(address); }

}  // namespace

DriverEvent::~DriverEvent() { (void)gpu_->cuda().cuEventDestroy(event_); }

StatusOr<bool> DriverEvent::IsDone() const {
  const CUresult result = gpu_->cuda().cuEventQuery(event_);
  if (result == CUDA_ERROR_NOT_READY) return false;
  LOCKSTEP_RETURN_IF_ERROR(gpu_->Check(result, "cuEventQuery"));
  return true;
}

StatusOr<std::chrono::nanoseconds> DriverEvent::Since(
    const collective::DeviceEvent& earlier) const {
  float milliseconds = 0;
  LOCKSTEP_RETURN_IF_ERROR(
      gpu_->Check(gpu_->cuda().cuEventElapsedTime(&milliseconds, HandleOf(earlier), event_),
                  "cuEventElapsedTime"));
  return std::chrono::nanoseconds(std::llround(double{milliseconds} * 1e6));
}

DriverGraph::~DriverGraph() {
  Status destroyed;
  if (executable_ != nullptr) {
    destroyed = gpu_->Check(gpu_->cuda().cuGraphExecDestroy(executable_), "cuGraphExecDestroy");
  }
  destroyed.Update(gpu_->Check(gpu_->cuda().cuGraphDestroy(graph_), "cuGraphDestroy"));
  if (!destroyed.ok()) log::Warn("a graph was not destroyed in order: ", Message(destroyed));
}

Status DriverGraph::Instantiate() {
  return gpu_->Check(gpu_->cuda().cuGraphInstantiate(&executable_, graph_, /*flags=*/0),
                     "cuGraphInstantiate");
}

DriverStream::~DriverStream() { (void)gpu_->cuda().cuStreamDestroy(stream_); }

StatusOr<bool> DriverStream::IsIdle() const {
  const CUresult result = gpu_->cuda().cuStreamQuery(stream_);
  if (result == CUDA_ERROR_NOT_READY) return false;
  LOCKSTEP_RETURN_IF_ERROR(gpu_->Check(result, "cuStreamQuery"));
  return true;
}

Status DriverStream::Record(Event& event) {
  return gpu_->Check(gpu_->cuda().cuEventRecord(HandleOf(event), stream_), "cuEventRecord");
}

Status DriverStream::WaitFor(const Event& event) {
  return gpu_->Check(
      gpu_->cuda().cuStreamWaitEvent(stream_, HandleOf(event), CU_EVENT_WAIT_DEFAULT),
      "cuStreamWaitEvent");
}

Status DriverStream::Copy(void* to, const void* from, size_t size_bytes) {
  if (size_bytes == 0) return OkStatus();
  return gpu_->Check(
      gpu_->cuda().cuMemcpyAsync(AddressOf(to), AddressOf(from), size_bytes, stream_),
      "cuMemcpyAsync");
}

Status DriverStream::CopyRows(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t row_bytes, size_t rows) {
  if (row_bytes == 0 || rows == 0) return OkStatus();
  const bool is_dense = row_bytes == to_pitch && row_bytes == from_pitch;
  if (is_dense || rows == 1) return Copy(to, from, row_bytes * rows);
  if (std::max(to_pitch, from_pitch) > kLargestPitch) {
    for (size_t row = 0; row < rows; ++row) {
      LOCKSTEP_RETURN_IF_ERROR(Copy(static_cast<std::byte*>(to) + row * to_pitch,
                                    static_cast<const std::byte*>(from) + row * from_pitch,
                                    row_bytes));
    }
    return OkStatus();
  }
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = AddressOf(from);
  copy.srcPitch = from_pitch;
  copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.dstDevice = AddressOf(to);
  copy.dstPitch = to_pitch;
  copy.WidthInBytes = row_bytes;
  copy.Height = rows;
  return gpu_->Check(gpu_->cuda().cuMemcpy2DAsync(&copy, stream_), "cuMemcpy2DAsync");
}

Status DriverStream::Launch(Kernel kernel, uint64_t threads, const void* parameters) {
  return gpu_->Check(LaunchKernel(gpu_->cuda(), kernel.handle, threads, parameters, stream_),
                     "cuLaunchKernel");
}

Status DriverStream::LaunchForEach(Kernel kernel, uint64_t threads,
                                   absl::Span<void* const> parameters) {
  constexpr uint64_t kMostBlocks = (uint64_t{1} << 31) - 1;
  if (threads == 0) return OkStatus();
  const uint64_t blocks = threads / kThreadsPerBlock + (threads % kThreadsPerBlock == 0 ? 0 : 1);
  if (blocks > kMostBlocks) {
    return InvalidArgument("a kernel cannot be run by ", threads, " threads: a launch has at most ",
                           kMostBlocks, " blocks of ", kThreadsPerBlock);
  }
  return gpu_->Check(
      gpu_->cuda().cuLaunchKernel(kernel.handle, static_cast<unsigned>(blocks), 1, 1,
                                  kThreadsPerBlock, 1, 1, /*sharedMemBytes=*/0, stream_,
                                  const_cast<void**>(parameters.data()), /*extra=*/nullptr),
      "cuLaunchKernel");
}

// What other threads do meanwhile is none of its business.
Status DriverStream::BeginCapture() {
  return gpu_->Check(
      gpu_->cuda().cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
      "cuStreamBeginCapture");
}

StatusOr<std::unique_ptr<Graph>> DriverStream::EndCapture() {
  CUgraph captured = nullptr;
  LOCKSTEP_RETURN_IF_ERROR(
      gpu_->Check(gpu_->cuda().cuStreamEndCapture(stream_, &captured), "cuStreamEndCapture"));
  auto graph = std::make_unique<DriverGraph>(gpu_, captured);
  LOCKSTEP_RETURN_IF_ERROR(graph->Instantiate());
  return std::unique_ptr<Graph>(std::move(graph));
}

Status DriverStream::Launch(Graph& graph) {
  return gpu_->Check(
      gpu_->cuda().cuGraphLaunch(static_cast<DriverGraph&>(graph).executable(), stream_),
      "cuGraphLaunch");
}

}  // namespace lockstep::cuda
