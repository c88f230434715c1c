#include "runtime/collective/tcp/sealed_writer.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep::collective::tcp {
namespace {

// Small messages go out together, until they are so many.
constexpr size_t kTogetherBytes = size_t{16} << 10;

}  // namespace

bool SealedWriter::Write(int fd) {
  size_t moved_bytes = 0;
  while (is_busy() && moved_bytes < kMostBytesAtOnce) {
    if (sealed_begin_ == sealed_end_ && !SealNext()) {
      is_broken_ = true;
      break;
    }
    const ssize_t taken = send(fd, sealed_.get() + sealed_begin_, sealed_end_ - sealed_begin_,
                               MSG_NOSIGNAL | MSG_DONTWAIT);
    if (taken < 0) {
      is_broken_ = !IsTemporary(errno);
      break;
    }
    sealed_begin_ += static_cast<size_t>(taken);
    moved_bytes += static_cast<size_t>(taken);
  }
  return moved_bytes > 0;
}

bool SealedWriter::SealNext() {
  sealed_begin_ = sealed_end_ = 0;
  while (!messages_.empty() && sealed_end_ < kTogetherBytes) {
    Outgoing& message = messages_.front();
    const ChunkHeader header = {message.tag, message.left_bytes};
    const uint64_t chunk_bytes = ChunkBytes(message.left_bytes);
    std::byte* const to = Extend(sizeof header + chunk_bytes + 2 * Cipher::kTagBytes);
    if (!cipher_->Seal(&header, sizeof header, to) ||
        !cipher_->Seal(message.data, chunk_bytes, to + sizeof header + Cipher::kTagBytes)) {
      return false;
    }
    message.data += chunk_bytes;
    message.left_bytes -= chunk_bytes;
    if (message.left_bytes == 0) messages_.pop_front();
  }
  return true;
}

std::byte* SealedWriter::Extend(size_t size_bytes) {
  const size_t begin = std::exchange(sealed_end_, sealed_end_ + size_bytes);
  if (sealed_end_ > capacity_bytes_) {
    capacity_bytes_ = std::max(sealed_end_, 2 * capacity_bytes_);
    std::unique_ptr<std::byte[]> larger(new std::byte[capacity_bytes_]);
    if (begin > 0) std::memcpy(larger.get(), sealed_.get(), begin);
    sealed_ = std::move(larger);
  }
  return sealed_.get() + begin;
}

void SealedWriter::AddFarewell(const Status& why) {
  leave_words_ = WordsFor(why);
  Add(kLeaveTag, &leave_words_, sizeof leave_words_);
}

}  // namespace lockstep::collective::tcp
