#include "runtime/collective/tcp/chunk_reader.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace lockstep::collective::tcp {
namespace {

// Some small messages at a time; the data of larger ones goes right where it belongs.
constexpr size_t kBufferBytes = size_t{16} << 10;

}  // namespace

ChunkReader::ChunkReader() : message_(expected_.end()), buffer_(kBufferBytes) {}

bool ChunkReader::Read(int fd) {
  bool moved = false;
  do {
    while (TakeBuffered()) moved = true;
    // All that was expected was there, or it is not its turn.
    if (!can_read() || (moved && !is_expecting() && !drops_all_)) break;
    if (!ReadSome(fd)) break;
    moved = true;
  } while (true);
  return moved;
}

bool ChunkReader::ReadSome(int fd) {
  // What is left of a header goes to the front, so that the rest fits behind it.
  if (buffer_begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + buffer_begin_, buffered_bytes());
    buffer_end_ -= std::exchange(buffer_begin_, 0);
  }
  iovec parts[2];
  int count = 0;
  const bool is_direct = is_in_chunk_ && chunk_data_ != nullptr;
  if (is_direct) parts[count++] = {chunk_data_, chunk_left_bytes_};
  parts[count++] = {buffer_.data() + buffer_end_, buffer_.size() - buffer_end_};
  const ssize_t got = readv(fd, parts, count);
  if (got < 0 && IsTemporary(errno)) return false;
  if (got <= 0) {
    is_over_ = true;
    return false;
  }
  size_t rest = static_cast<size_t>(got);
  if (is_direct) {
    const size_t direct = std::min<size_t>(rest, chunk_left_bytes_);
    AdvanceChunk(direct);
    rest -= direct;
  }
  buffer_end_ += rest;
  return true;
}

bool ChunkReader::TakeBuffered() {
  if (is_over_) return false;
  if (is_in_chunk_) {
    const size_t part = std::min<size_t>(buffered_bytes(), chunk_left_bytes_);
    if (part == 0) return false;
    if (chunk_data_ != nullptr) {
      std::memcpy(chunk_data_, buffer_.data() + buffer_begin_, part);
    }
    buffer_begin_ += part;
    AdvanceChunk(part);
    return true;
  }
  if (!has_header_) {
    if (buffered_bytes() < sizeof header_) return false;
    std::memcpy(&header_, buffer_.data() + buffer_begin_, sizeof header_);
    buffer_begin_ += sizeof header_;
    has_header_ = true;
  }
  return BeginChunk();
}

bool ChunkReader::BeginChunk() {
  const bool is_leave = header_.tag == kLeaveTag;
  message_ = std::find_if(expected_.begin(), expected_.end(),
                          [&](const Incoming& message) { return message.tag == header_.tag; });
  const bool is_expected = message_ != expected_.end();
  if (!is_leave && !is_expected && !drops_all_) return false;
  const uint64_t right_bytes = is_leave      ? sizeof leave_words_
                               : is_expected ? message_->left_bytes
                                             : header_.left_bytes;
  // Ranks agree about sizes before they send: this peer does not speak our language.
  if (header_.left_bytes != right_bytes || right_bytes == 0) {
    is_over_ = true;
    return false;
  }
  chunk_data_ = is_leave      ? reinterpret_cast<std::byte*>(&leave_words_)
                : is_expected ? message_->data
                              : nullptr;
  chunk_left_bytes_ = is_leave ? sizeof leave_words_ : ChunkBytes(right_bytes);
  return is_in_chunk_ = true;
}

// So many bytes of the chunk have come.
void ChunkReader::AdvanceChunk(size_t bytes) {
  if (chunk_data_ != nullptr) chunk_data_ += bytes;
  chunk_left_bytes_ -= bytes;
  if (chunk_left_bytes_ > 0) return;
  has_header_ = is_in_chunk_ = false;
  if (header_.tag == kLeaveTag) {
    const size_t length = std::min<size_t>(leave_words_.length, leave_words_.text.size());
    leave_reason_ = message::ReadLeaveReason(leave_words_.code, {leave_words_.text.data(), length});
    is_over_ = true;
  } else if (message_ != expected_.end()) {
    const uint64_t chunk_bytes = ChunkBytes(message_->left_bytes);
    message_->data += chunk_bytes;
    message_->left_bytes -= chunk_bytes;
    if (message_->left_bytes == 0) expected_.erase(message_);
  }
}

void ChunkReader::DropAll() {
  drops_all_ = true;
  if (is_in_chunk_ && header_.tag != kLeaveTag) chunk_data_ = nullptr;
  expected_.clear();
  message_ = expected_.end();
}

}  // namespace lockstep::collective::tcp
