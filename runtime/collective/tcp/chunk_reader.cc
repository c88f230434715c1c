#include "runtime/collective/tcp/chunk_reader.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

namespace lockstep::collective::tcp {
namespace {

// Some small messages at a time; the data of larger ones goes right where it belongs.
constexpr size_t kBufferBytes = size_t{16} << 10;
// What is laid aside: as large as what ranks tell each other before an operation, and so many.
constexpr uint64_t kMostAsideBytes = 4096;
constexpr size_t kMostAsides = 16;
// A chunk's tag, and the header of the next one.
constexpr size_t kBehindSealedChunk = 2 * Cipher::kTagBytes + sizeof(ChunkHeader);

}  // namespace

ChunkReader::ChunkReader(std::unique_ptr<Cipher> cipher)
    : cipher_(std::move(cipher)), buffer_(kBufferBytes) {}

void ChunkReader::Expect(uint64_t tag, void* data, size_t size_bytes) {
  if (size_bytes == 0) return;
  expected_.push_back({tag, static_cast<std::byte*>(data), size_bytes});
  const auto aside = std::find_if(asides_.begin(), asides_.end(),
                                  [&](const Aside& one) { return one.tag == tag; });
  if (aside != asides_.end() && aside->is_whole) HandOver(std::prev(expected_.end()), aside);
}

void ChunkReader::HandOver(std::list<Incoming>::iterator message,
                           std::list<Aside>::iterator aside) {
  if (aside->bytes.size() != message->left_bytes) {
    is_over_ = true;
    return;
  }
  std::memcpy(message->data, aside->bytes.data(), aside->bytes.size());
  expected_.erase(message);
  asides_.erase(aside);
}

bool ChunkReader::Read(int fd) {
  bool moved = false;
  size_t read_bytes = 0;
  do {
    while (TakeBuffered()) moved = true;
    // All that was expected was there, or what is in front has to wait.
    if (!can_read() || (moved && !is_expecting() && !drops_all_)) break;
    const size_t got = ReadSome(fd);
    if (got == 0) break;
    moved = true;
    read_bytes += got;
  } while (read_bytes < kMostBytesAtOnce);
  while (TakeBuffered()) moved = true;
  return moved;
}

size_t ChunkReader::ReadSome(int fd) {
  // What is left of a header goes to the front, so that the rest fits behind it.
  if (buffer_begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + buffer_begin_, buffered_bytes());
    buffer_end_ -= std::exchange(buffer_begin_, 0);
  }
  iovec parts[2];
  int count = 0;
  const bool is_direct = is_in_chunk_ && chunk_data_ != nullptr && chunk_left_bytes_ > 0;
  size_t room_bytes = buffer_.size() - buffer_end_;
  if (is_direct) {
    parts[count++] = {chunk_data_, chunk_left_bytes_};
    // What follows the next header is to go right where it belongs, too.
    if (cipher_ != nullptr) room_bytes = std::min(room_bytes, kBehindSealedChunk);
  }
  parts[count++] = {buffer_.data() + buffer_end_, room_bytes};
  const ssize_t got = readv(fd, parts, count);
  if (got < 0 && IsTemporary(errno)) return 0;
  if (got <= 0) {
    is_over_ = true;
    return 0;
  }
  size_t rest = static_cast<size_t>(got);
  if (is_direct) {
    const size_t direct = std::min<size_t>(rest, chunk_left_bytes_);
    AdvanceChunk(direct);
    rest -= direct;
  }
  buffer_end_ += rest;
  return static_cast<size_t>(got);
}

bool ChunkReader::TakeBuffered() {
  if (is_over_) return false;
  if (is_in_chunk_) {
    if (chunk_left_bytes_ == 0) return TakeTag();
    const size_t part = std::min<size_t>(buffered_bytes(), chunk_left_bytes_);
    if (part == 0) return false;
    if (chunk_data_ != nullptr) {
      std::memcpy(chunk_data_, buffer_.data() + buffer_begin_, part);
    }
    buffer_begin_ += part;
    AdvanceChunk(part);
    return true;
  }
  return (has_header_ || TakeHeader()) && BeginChunk();
}

bool ChunkReader::TakeHeader() {
  const size_t size_bytes = sizeof header_ + (cipher_ != nullptr ? Cipher::kTagBytes : 0);
  if (buffered_bytes() < size_bytes) return false;
  std::byte* const header = buffer_.data() + buffer_begin_;
  if (cipher_ != nullptr && !cipher_->Open(header, sizeof header_, header + sizeof header_)) {
    return NoteForged();
  }
  std::memcpy(&header_, header, sizeof header_);
  buffer_begin_ += size_bytes;
  return has_header_ = true;
}

bool ChunkReader::TakeTag() {
  if (buffered_bytes() < Cipher::kTagBytes) return false;
  const std::byte* const tag = buffer_.data() + buffer_begin_;
  const bool is_right = chunk_data_ == nullptr
                            ? cipher_->Skip()
                            : cipher_->Open(chunk_data_ - chunk_bytes_, chunk_bytes_, tag);
  if (!is_right) return NoteForged();
  buffer_begin_ += Cipher::kTagBytes;
  EndChunk();
  return true;
}

bool ChunkReader::NoteForged() {
  is_over_ = is_forged_ = true;
  return false;
}

std::list<ChunkReader::Incoming>::iterator ChunkReader::FindExpected(uint64_t tag) {
  return std::find_if(expected_.begin(), expected_.end(),
                      [&](const Incoming& message) { return message.tag == tag; });
}

bool ChunkReader::BeginChunk() {
  // Ranks agree about sizes before they send: a peer with others does not speak our language.
  uint64_t right_bytes = header_.left_bytes;
  chunk_data_ = nullptr;
  message_ = FindExpected(header_.tag);
  if (header_.tag == kLeaveTag) {
    chunk_ = Chunk::kLeave;
    right_bytes = sizeof leave_words_;
    chunk_data_ = reinterpret_cast<std::byte*>(&leave_words_);
  } else if (message_ != expected_.end()) {
    chunk_ = Chunk::kExpected;
    right_bytes = message_->left_bytes;
    chunk_data_ = message_->data;
  } else if (drops_all_) {
    chunk_ = Chunk::kDropped;
  } else if (header_.left_bytes <= kMostAsideBytes && asides_.size() < kMostAsides) {
    chunk_ = Chunk::kAside;
    aside_ =
        asides_.insert(asides_.end(), {header_.tag, std::vector<std::byte>(header_.left_bytes)});
    chunk_data_ = aside_->bytes.data();
  } else {
    return false;
  }
  if (header_.left_bytes != right_bytes || right_bytes == 0) {
    is_over_ = true;
    return false;
  }
  chunk_bytes_ = chunk_ == Chunk::kLeave ? right_bytes : ChunkBytes(right_bytes);
  chunk_left_bytes_ = chunk_bytes_;
  return is_in_chunk_ = true;
}

// So many bytes of the chunk have come.
void ChunkReader::AdvanceChunk(size_t bytes) {
  if (chunk_data_ != nullptr) chunk_data_ += bytes;
  chunk_left_bytes_ -= bytes;
  if (chunk_left_bytes_ == 0 && cipher_ == nullptr) EndChunk();
}

void ChunkReader::EndChunk() {
  has_header_ = is_in_chunk_ = false;
  switch (chunk_) {
    case Chunk::kExpected: {
      const uint64_t chunk_bytes = ChunkBytes(message_->left_bytes);
      message_->data += chunk_bytes;
      message_->left_bytes -= chunk_bytes;
      if (message_->left_bytes == 0) expected_.erase(message_);
      break;
    }
    case Chunk::kAside: {
      aside_->is_whole = true;
      const auto message = FindExpected(header_.tag);
      if (message != expected_.end()) HandOver(message, aside_);
      break;
    }
    case Chunk::kLeave: {
      const size_t length = std::min<size_t>(leave_words_.length, leave_words_.text.size());
      leave_reason_ =
          message::ReadLeaveReason(leave_words_.code, {leave_words_.text.data(), length});
      is_over_ = true;
      break;
    }
    case Chunk::kDropped:
      break;
  }
}

void ChunkReader::DropAll() {
  drops_all_ = true;
  if (is_in_chunk_ && chunk_ != Chunk::kLeave) {
    chunk_ = Chunk::kDropped;
    chunk_data_ = nullptr;
  }
  expected_.clear();
  asides_.clear();
}

}  // namespace lockstep::collective::tcp
