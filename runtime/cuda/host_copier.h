// Copies between ordinary host memory and a GPU.
#pragma once

#include <array>
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
// A caller that is kMostBeside ahead of its stream waits for it all the same.
//
// Threads: one at a time. Errors: the GPU's; Await()'s.
class HostCopier {
 public:
  static constexpr size_t kChunkBytes = size_t{4} << 20;
  static constexpr size_t kChunks = 3;
  // Most bytes of uploads that wait in the GPU's memory for earlier work of their stream.
  static constexpr size_t kMostBeside = size_t{64} << 20;

  // `pool` is of the same GPU.
  static StatusOr<std::unique_ptr<HostCopier>> Create(std::shared_ptr<Gpu> gpu,
                                                      std::shared_ptr<MemoryPool> pool);
  ~HostCopier();
  HostCopier(const HostCopier&) = delete;
  HostCopier& operator=(const HostCopier&) = delete;

  // In `stream`'s order. Returns when `from` may be changed; the copy itself is the stream's
  // affair. Waits for what `stream` has yet to do only where the GPU has no memory to spare, or
  // kMostBeside wait for it already. `stream` is the same one in all calls.
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

  // Uploads beside the stream, and when it has let go of the memory of the last.
  struct Batch {
    size_t size_bytes = 0;
    std::unique_ptr<Event> landed;
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
  // The one that has room for so much more. Null: kMostBeside wait already.
  StatusOr<Batch*> BatchFor(size_t size_bytes);

  const std::shared_ptr<Gpu> gpu_;
  const std::shared_ptr<MemoryPool> pool_;
  const std::unique_ptr<Stream> uploads_;
  std::array<Batch, 4> batches_;  // in turn, of kMostBeside together
  size_t batch_ = 0;              // that is being filled
  std::vector<Chunk> chunks_;
  size_t next_ = 0;
};

}  // namespace lockstep::cuda
