// Copies between ordinary host memory and a GPU.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/cuda/await.h"
#include "runtime/cuda/gpu.h"

namespace lockstep::cuda {

// In chunks through pinned memory, of which some are on their way while others are filled or
// emptied: a GPU reads ordinary memory at a fraction of the speed, and makes the caller wait.
//
// Threads: one at a time. Errors: the GPU's; Await()'s.
class HostCopier {
 public:
  static constexpr size_t kChunkBytes = size_t{4} << 20;
  static constexpr size_t kChunks = 3;

  static StatusOr<std::unique_ptr<HostCopier>> Create(std::shared_ptr<Gpu> gpu);
  ~HostCopier();
  HostCopier(const HostCopier&) = delete;
  HostCopier& operator=(const HostCopier&) = delete;

  // In `stream`'s order. Returns when `from` may be changed; the copy itself is the stream's
  // affair.
  Status ToGpu(Stream& stream, void* to, const void* from, size_t size_bytes,
               const collective::WaitLimit& limit);
  // After all that `stream` was given. Returns when `to` holds the bytes.
  Status FromGpu(Stream& stream, void* to, const void* from, size_t size_bytes,
                 const collective::WaitLimit& limit);

 private:
  // Pinned memory, and when what was last done with it is done.
  struct Chunk {
    std::byte* memory = nullptr;
    std::unique_ptr<Event> done;
    bool is_used = false;
  };

  explicit HostCopier(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}
  // Waits until `chunk` is not on its way any more.
  static Status AwaitChunk(Chunk& chunk, const collective::WaitLimit& limit);
  // The chunk used longest ago, which may be used again.
  StatusOr<Chunk*> Next(const collective::WaitLimit& limit);

  const std::shared_ptr<Gpu> gpu_;
  std::vector<Chunk> chunks_;
  size_t next_ = 0;
};

}  // namespace lockstep::cuda
