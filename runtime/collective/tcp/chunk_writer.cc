#include "runtime/collective/tcp/chunk_writer.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "runtime/collective/tcp/chunk.h"

namespace lockstep::collective::tcp {
namespace {

// Of one system call.
constexpr int kMostChunks = 8;

iovec Part(const void* data, size_t size_bytes) { return {const_cast<void*>(data), size_bytes}; }

// Where the chunk begins, and where it ends, that has this byte of a message.
uint64_t ChunkBegin(uint64_t at) { return at / kChunkBytes * kChunkBytes; }
uint64_t ChunkEnd(uint64_t at, uint64_t size_bytes) {
  return ChunkBegin(at) + ChunkBytes(size_bytes - ChunkBegin(at));
}

}  // namespace

bool ChunkWriter::Write(int fd) {
  size_t moved_bytes = 0;
  while (!is_broken_ && !messages_.empty() && moved_bytes < kMostBytesAtOnce) {
    const size_t taken = WriteMessages(fd);
    if (taken == 0) break;
    moved_bytes += taken;
  }
  const bool moved = moved_bytes > 0;
  if (is_broken_ || !messages_.empty() || farewell_.empty()) return moved;
  iovec rest = Part(farewell_.data() + farewell_sent_, farewell_.size() - farewell_sent_);
  farewell_sent_ += WriteParts(fd, &rest, 1);
  if (farewell_sent_ == farewell_.size()) farewell_.clear();
  return moved;
}

// Chunks of the messages in front, as many as fit into one call.
size_t ChunkWriter::WriteMessages(int fd) {
  ChunkHeader headers[kMostChunks];
  iovec parts[2 * kMostChunks];
  int chunks = 0;
  int count = 0;
  for (const Outgoing& message : messages_) {
    uint64_t at = message.sent_bytes;
    uint64_t header_sent_bytes = message.header_sent_bytes;
    for (; at < message.size_bytes && chunks < kMostChunks; ++chunks) {
      const uint64_t end = ChunkEnd(at, message.size_bytes);
      headers[chunks] = {message.tag, message.size_bytes - ChunkBegin(at)};
      if (header_sent_bytes < sizeof(ChunkHeader)) {
        parts[count++] =
            Part(reinterpret_cast<const std::byte*>(&headers[chunks]) + header_sent_bytes,
                 sizeof(ChunkHeader) - header_sent_bytes);
      }
      parts[count++] = Part(message.data + at, end - at);
      at = end;
      header_sent_bytes = 0;
    }
    if (chunks == kMostChunks) break;
  }
  const size_t taken = WriteParts(fd, parts, count);
  NoteSent(taken);
  return taken;
}

void ChunkWriter::NoteSent(size_t bytes) {
  while (bytes > 0) {
    Outgoing& message = messages_.front();
    const size_t header_part =
        std::min<size_t>(bytes, sizeof(ChunkHeader) - message.header_sent_bytes);
    message.header_sent_bytes += header_part;
    bytes -= header_part;
    const uint64_t end = ChunkEnd(message.sent_bytes, message.size_bytes);
    const size_t data_part = std::min<size_t>(bytes, end - message.sent_bytes);
    message.sent_bytes += data_part;
    bytes -= data_part;
    if (message.sent_bytes == end) message.header_sent_bytes = 0;
    if (message.sent_bytes == message.size_bytes) messages_.pop_front();
  }
}

size_t ChunkWriter::WriteParts(int fd, iovec* parts, int count) {
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = static_cast<size_t>(count);
  const ssize_t taken = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (taken >= 0) return static_cast<size_t>(taken);
  if (!IsTemporary(errno)) is_broken_ = true;
  return 0;
}

void ChunkWriter::Forget() {
  if (!messages_.empty() && messages_.front().header_sent_bytes > 0) {
    const Outgoing& message = messages_.front();
    const uint64_t end = ChunkEnd(message.sent_bytes, message.size_bytes);
    cut_bytes_ = sizeof(ChunkHeader) - message.header_sent_bytes + end - message.sent_bytes;
    cut_message_goes_on_ = end < message.size_bytes;
  }
  messages_.clear();
}

void ChunkWriter::AddFarewell(const Status& why) {
  // Zeros instead of the last chunk's rest would make it a message that the peer believes. And half
  // a header cannot be made whole: the message is forgotten.
  if (cut_bytes_ > 0 && (!cut_message_goes_on_ || cut_bytes_ > kChunkBytes)) return;
  const LeaveWords words = WordsFor(why);
  const ChunkHeader header = {kLeaveTag, sizeof words};
  farewell_.resize(cut_bytes_ + sizeof header + sizeof words);
  std::memcpy(farewell_.data() + cut_bytes_, &header, sizeof header);
  std::memcpy(farewell_.data() + cut_bytes_ + sizeof header, &words, sizeof words);
}

}  // namespace lockstep::collective::tcp
