#include "runtime/cuda/host_copier.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep::cuda {
namespace {

// The least that a piece of a GPU's memory takes.
constexpr size_t kGranularity = 512;

}  // namespace

StatusOr<std::unique_ptr<HostCopier>> HostCopier::Create(std::shared_ptr<Gpu> gpu,
                                                         std::shared_ptr<MemoryPool> pool) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto uploads, gpu->NewStream());
  std::unique_ptr<HostCopier> copier(
      new HostCopier(std::move(gpu), std::move(pool), std::move(uploads)));
  for (Batch& batch : copier->batches_) {
    LOCKSTEP_ASSIGN_OR_RETURN(batch.landed, copier->gpu_->NewEvent(/*timed=*/false));
  }
  for (size_t i = 0; i < kChunks; ++i) {
    Chunk chunk;
    LOCKSTEP_ASSIGN_OR_RETURN(chunk.done, copier->gpu_->NewEvent(/*timed=*/false));
    LOCKSTEP_ASSIGN_OR_RETURN(void* const memory, copier->gpu_->AllocateHost(kChunkBytes));
    chunk.memory = static_cast<std::byte*>(memory);
    copier->chunks_.push_back(std::move(chunk));
  }
  return copier;
}

HostCopier::~HostCopier() {
  // On whichever thread.
  (void)gpu_->Bind();
  // The GPU may still read or write it.
  const Deadline deadline = Deadline::After(std::chrono::seconds(2));
  for (Chunk& chunk : chunks_) {
    const Status settled = AwaitChunk(chunk, {deadline});
    if (settled.ok() || !gpu_->Loss().ok()) gpu_->FreeHost(chunk.memory);
  }
}

Status HostCopier::AwaitChunk(Chunk& chunk, const collective::WaitLimit& limit) {
  if (!chunk.is_used) return OkStatus();
  LOCKSTEP_RETURN_IF_ERROR(Await(*chunk.done, limit, "a copy"));
  chunk.is_used = false;
  return OkStatus();
}

StatusOr<HostCopier::Chunk*> HostCopier::Next(const collective::WaitLimit& limit) {
  Chunk& chunk = chunks_[next_];
  next_ = (next_ + 1) % chunks_.size();
  LOCKSTEP_RETURN_IF_ERROR(AwaitChunk(chunk, limit));
  return &chunk;
}

Status HostCopier::UploadInOrder(Stream& stream, void* to, Chunk& chunk, size_t size_bytes) {
  LOCKSTEP_RETURN_IF_ERROR(stream.Copy(to, chunk.memory, size_bytes));
  chunk.is_used = true;
  return stream.Record(*chunk.done);
}

StatusOr<HostCopier::Batch*> HostCopier::BatchFor(size_t size_bytes) {
  // The one that is being filled, or the oldest.
  for (const size_t index : {batch_, (batch_ + 1) % batches_.size()}) {
    Batch& batch = batches_[index];
    if (batch.size_bytes > 0) {
      LOCKSTEP_ASSIGN_OR_RETURN(const bool has_landed, batch.landed->IsDone());
      if (has_landed) batch.size_bytes = 0;
    }
    if (batch.size_bytes + size_bytes > kMostBeside / batches_.size()) continue;
    batch_ = index;
    return &batch;
  }
  return nullptr;
}

StatusOr<bool> HostCopier::UploadBeside(Stream& stream, void* to, Chunk& chunk, size_t size_bytes) {
  const size_t taken = std::max(size_bytes, kGranularity);
  LOCKSTEP_ASSIGN_OR_RETURN(Batch* const batch, BatchFor(taken));
  if (batch == nullptr) return false;
  // Where memory is short, the driver gives some that a stream has yet to let go of, and has the
  // upload wait for that.
  const StatusOr<void*> between = pool_->Allocate(size_bytes, *uploads_);
  if (between.status().code() == StatusCode::kResourceExhausted) return false;
  LOCKSTEP_RETURN_IF_ERROR(between.status());
  const auto copy = [&]() -> Status {
    LOCKSTEP_RETURN_IF_ERROR(UploadInOrder(*uploads_, *between, chunk, size_bytes));
    LOCKSTEP_RETURN_IF_ERROR(stream.WaitFor(*chunk.done));
    return stream.Copy(to, *between, size_bytes);
  };
  const Status copied = copy();
  const Status freed = pool_->Free(*between, stream);
  LOCKSTEP_RETURN_IF_ERROR(copied);
  LOCKSTEP_RETURN_IF_ERROR(freed);
  batch->size_bytes += taken;
  LOCKSTEP_RETURN_IF_ERROR(stream.Record(*batch->landed));
  return true;
}

Status HostCopier::ToGpu(Stream& stream, void* to, const void* from, size_t size_bytes,
                         const collective::WaitLimit& limit) {
  if (size_bytes == 0) return OkStatus();
  // Then nothing but these copies is before them: one copy each is enough.
  LOCKSTEP_ASSIGN_OR_RETURN(bool in_order, stream.IsIdle());
  for (size_t offset = 0; offset < size_bytes; offset += kChunkBytes) {
    const size_t size = std::min(kChunkBytes, size_bytes - offset);
    LOCKSTEP_ASSIGN_OR_RETURN(Chunk* const chunk, Next(limit));
    std::memcpy(chunk->memory, static_cast<const std::byte*>(from) + offset, size);
    std::byte* const target = static_cast<std::byte*>(to) + offset;
    if (!in_order) {
      LOCKSTEP_ASSIGN_OR_RETURN(const bool is_done, UploadBeside(stream, target, *chunk, size));
      in_order = !is_done;
    }
    if (in_order) LOCKSTEP_RETURN_IF_ERROR(UploadInOrder(stream, target, *chunk, size));
  }
  return OkStatus();
}

Status HostCopier::FromGpu(Stream& stream, void* to, const void* from, size_t size_bytes,
                           const collective::WaitLimit& limit) {
  size_t asked = 0;   // bytes that are on their way, or here
  size_t copied = 0;  // bytes in `to`
  size_t oldest = next_;
  while (copied < size_bytes) {
    while (asked < size_bytes && asked - copied < kChunks * kChunkBytes) {
      const size_t size = std::min(kChunkBytes, size_bytes - asked);
      LOCKSTEP_ASSIGN_OR_RETURN(Chunk* const chunk, Next(limit));
      LOCKSTEP_RETURN_IF_ERROR(
          stream.Copy(chunk->memory, static_cast<const std::byte*>(from) + asked, size));
      LOCKSTEP_RETURN_IF_ERROR(stream.Record(*chunk->done));
      chunk->is_used = true;
      asked += size;
    }
    Chunk& chunk = chunks_[oldest];
    oldest = (oldest + 1) % chunks_.size();
    LOCKSTEP_RETURN_IF_ERROR(AwaitChunk(chunk, limit));
    const size_t size = std::min(kChunkBytes, size_bytes - copied);
    std::memcpy(static_cast<std::byte*>(to) + copied, chunk.memory, size);
    copied += size;
  }
  return OkStatus();
}

}  // namespace lockstep::cuda
