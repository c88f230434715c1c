#include "tests/fuzz/input.h"

#include <algorithm>
#include <cstring>

namespace lockstep::fuzz {
namespace {

constexpr size_t kWord = sizeof(uint64_t);
constexpr size_t kMostFrames = 3;

// Takes what is there of the bytes that are asked for.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  bool empty() const { return size_ == 0; }
  uint8_t Byte() {
    const Bytes one = Take(1);
    return one.size_ == 0 ? 0 : *one.data_;
  }
  Bytes Take(size_t count) {
    const Bytes taken(data_, std::min(count, size_));
    data_ += taken.size_;
    size_ -= taken.size_;
    return taken;
  }
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  const uint8_t* data_;
  size_t size_;
};

}  // namespace

std::vector<Record> ReadRecords(const uint8_t* data, size_t size, control::Protocol protocol) {
  std::vector<Record> records;
  Bytes rest(data, size);
  while (!rest.empty()) {
    const uint8_t sender = rest.Byte();
    const size_t frames = rest.Byte() % (kMostFrames + 1);
    Record record{static_cast<uint8_t>(sender & ~kNeedsTable), {}};
    for (size_t i = 0; i < frames; ++i) {
      const size_t low = rest.Byte();
      const Bytes frame = rest.Take(low | size_t{rest.Byte()} << 8);
      const bool needs_table = i == 0 && (sender & kNeedsTable) != 0;
      record.message.push_back(needs_table ? WithTable(frame.data(), frame.size(), protocol)
                                           : control::Frame::Copy(frame.data(), frame.size()));
    }
    records.push_back(std::move(record));
  }
  return records;
}

control::Frame WithTable(const uint8_t* segment, size_t size, control::Protocol protocol) {
  const size_t words = (size + kWord - 1) / kWord;
  std::vector<uint64_t> message;
  message.reserve(2 + words);
  if (protocol != control::Protocol::kNone) message.push_back(control::TagOf(protocol));
  message.push_back(uint64_t{words} << 32);
  const size_t head = message.size();
  message.resize(head + words);
  if (size > 0) std::memcpy(message.data() + head, segment, size);
  return control::Frame::Copy(message.data(), message.size() * kWord);
}

control::Message Fill(const control::Message& message, const Placeholders& placeholders) {
  control::Message filled;
  for (const control::Frame& frame : message) {
    std::vector<uint64_t> words((frame.size() + kWord - 1) / kWord);
    if (frame.size() > 0) std::memcpy(words.data(), frame.data(), frame.size());
    for (uint64_t& word : words) {
      const auto found = placeholders.find(std::string(reinterpret_cast<char*>(&word), kWord));
      if (found != placeholders.end()) word = found->second;
    }
    filled.push_back(control::Frame::Copy(words.data(), frame.size()));
  }
  return filled;
}

}  // namespace lockstep::fuzz
