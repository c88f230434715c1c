// Copies between ordinary host memory and a GPU.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/cuda/await.h"
#include "runtime/cuda/gpu.h"

namespace lockstep::cuda {

// In chunks through pinned memory, of which some are on their way while others are filled or
// emptied: a GPU reads ordinary memory at a fraction of the speed, and makes the caller wait.
//
// Chunks on their way to a stream that has other work before them would stay in use until that is
// done, however long a kernel takes, and the caller would wait for it. So they leave by a stream of
// their own, to memory of the GPU's that is allocated for this moment. The stream that the copy
// belongs to waits for that by an event, and copies it to where earlier work may still be reading.
//
// Threads: one at a time. Errors: the GPU's; Await()'s.
class HostCopier {
 public:
  static constexpr size_t kChunkBytes = size_t{4} << 20;
  static constexpr size_t kChunks = 3;

  // `pool` is of the same GPU.
  static StatusOr<std::unique_ptr<HostCopier>> Create(std::shared_ptr<Gpu> gpu,
                                                      std::shared_ptr<MemoryPool> pool);
  ~HostCopier();
  HostCopier(const HostCopier&) = delete;
  HostCopier& operator=(const HostCopier&) = delete;

  // In `stream`'s order. Returns when `from` may be changed; the copy itself is the stream's
  // affair. Waits for what `stream` has yet to do only where the GPU has no memory to spare.
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

  HostCopier(std::shared_ptr<Gpu> gpu, std::shared_ptr<MemoryPool> pool,
             std::unique_ptr<Stream> uploads)
      : gpu_(std::move(gpu)), pool_(std::move(pool)), uploads_(std::move(uploads)) {}
  // Waits until `chunk` is not on its way any more.
  static Status AwaitChunk(Chunk& chunk, const collective::WaitLimit& limit);
  // The chunk used longest ago, which may be used again.
  StatusOr<Chunk*> Next(const collective::WaitLimit& limit);
  // `chunk` is on its way to `to` as a part of `stream`'s work.
  static Status UploadInOrder(Stream& stream, void* to, Chunk& chunk, size_t size_bytes);
  // It is on its way now; `stream` copies it to `to` later. False: there is no memory for it.
  StatusOr<bool> UploadBeside(Stream& stream, void* to, Chunk& chunk, size_t size_bytes);

  const std::shared_ptr<Gpu> gpu_;
  const std::shared_ptr<MemoryPool> pool_;
  const std::unique_ptr<Stream> uploads_;
  std::vector<Chunk> chunks_;
  size_t next_ = 0;
};

}  // namespace lockstep::cuda
