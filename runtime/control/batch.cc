#include "runtime/control/batch.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace lockstep::control {
namespace {

constexpr size_t kInitialWords = 8192;  // 64 KiB: what one batch usually grows to
constexpr size_t kZeroStepWords = 512;  // zeroing 4 KiB at a time stays in the first-level cache
// Room that a command is given at least; larger ones take the overflow path.
constexpr size_t kRoomWords = 64;
// A body that leaves most of the buffer unused is copied out, so that small batches in flight do
// not hold large buffers.
constexpr size_t kCopyBelowWords = kInitialWords / 4;

uint64_t* Allocate(size_t words) {
  void* memory = std::malloc(words * sizeof(uint64_t));
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<uint64_t*>(memory);
}

}  // namespace

BatchWriter::BatchWriter() : words_(Allocate(kInitialWords)), capacity_words_(kInitialWords) {}

BatchWriter::~BatchWriter() { std::free(words_); }

void BatchWriter::Grow(size_t words) {
  if (words <= capacity_words_) return;
  const size_t capacity = std::max(words, 2 * capacity_words_);
  uint64_t* grown = Allocate(capacity);
  std::memcpy(grown, words_, used_words_ * sizeof(uint64_t));
  std::free(words_);
  words_ = grown;
  capacity_words_ = capacity;
  zeroed_words_ = used_words_;
}

void BatchWriter::EnsureZeroed(size_t count) {
  Grow(used_words_ + count);
  zeroed_words_ = std::max(zeroed_words_, used_words_);
  const size_t wanted = used_words_ + count;
  if (zeroed_words_ >= wanted) return;
  const size_t end = std::min(capacity_words_, wanted + kZeroStepWords);
  std::memset(words_ + zeroed_words_, 0, (end - zeroed_words_) * sizeof(uint64_t));
  zeroed_words_ = end;
}

void BatchWriter::Rollback(const Mark& mark) {
  used_words_ = mark.used_words;
  commands_ = mark.commands;
  // What was written behind the mark is dirty.
  zeroed_words_ = used_words_;
}

Frame BatchWriter::Take() {
  Frame body;
  if (used_words_ < kCopyBelowWords) {
    body = Frame::Copy(words_, size_bytes());
  } else {
    const size_t bytes = size_bytes();
    std::shared_ptr<const void> owner(words_, [](uint64_t* words) { std::free(words); });
    body = Frame(std::move(owner), words_, bytes);
    words_ = Allocate(kInitialWords);
    capacity_words_ = kInitialWords;
  }
  // The used part of a kept buffer is dirty again; EnsureZeroed starts over.
  zeroed_words_ = 0;
  used_words_ = 0;
  commands_ = 0;
  return body;
}

BatchWriter::CommandBuilder::~CommandBuilder() noexcept(false) {
  for (void* segment : overflow_) std::free(segment);
}

kj::ArrayPtr<capnp::word> BatchWriter::CommandBuilder::allocateSegment(unsigned minimum_words) {
  if (first_) {
    first_ = false;
    // One word in front for the framing of a single segment.
    writer_.EnsureZeroed(1 + std::max<size_t>(minimum_words, kRoomWords));
    return kj::arrayPtr(reinterpret_cast<capnp::word*>(writer_.words_ + writer_.used_words_ + 1),
                        writer_.zeroed_words_ - writer_.used_words_ - 1);
  }
  const size_t words = std::max<size_t>(minimum_words, kZeroStepWords);
  void* segment = std::calloc(words, sizeof(uint64_t));
  if (segment == nullptr) throw std::bad_alloc();
  overflow_.push_back(segment);
  return kj::arrayPtr(static_cast<capnp::word*>(segment), words);
}

void BatchWriter::CommandBuilder::Finish() {
  const auto segments = getSegmentsForOutput();
  BatchWriter& writer = writer_;
  if (segments.size() == 1) {
    // Framing: number of segments - 1, then each one's size in words (two 32-bit numbers here).
    writer.words_[writer.used_words_] = uint64_t{segments[0].size()} << 32;
    writer.used_words_ += 1 + segments[0].size();
  } else {
    const size_t words = capnp::computeSerializedSizeInWords(segments);
    auto framed = std::make_unique_for_overwrite<uint64_t[]>(words);
    kj::ArrayOutputStream out(
        kj::arrayPtr(reinterpret_cast<kj::byte*>(framed.get()), words * sizeof(uint64_t)));
    capnp::writeMessage(out, segments);
    writer.Grow(writer.used_words_ + words);
    std::memcpy(writer.words_ + writer.used_words_, framed.get(), words * sizeof(uint64_t));
    writer.used_words_ += words;
    writer.zeroed_words_ = std::max(writer.zeroed_words_, writer.used_words_);
  }
  ++writer.commands_;
}

BatchReader::BatchReader(const Frame& body, const ReadLimits& limits)
    : words_(body), limits_(limits), cut_off_(!words_.ok() && body.size() > 0) {}

}  // namespace lockstep::control
