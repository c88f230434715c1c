#include "tests/fuzz/seeds.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/control/message_codec.h"
#include "schemas/control.capnp.h"

namespace lockstep::fuzz {
namespace {

constexpr size_t kTableBytes = 8;

// Of a first frame: the tag that is in front of the table, if there is one.
size_t TagBytes(const control::Frame& frame) {
  uint64_t tag = 0;
  if (frame.size() < control::kTagBytes) return 0;
  std::memcpy(&tag, frame.data(), sizeof tag);
  return (tag & 0xffffff) == control::TagStart(control::Protocol::kNone) ? control::kTagBytes : 0;
}

bool IsOneSegment(const control::Frame& frame, size_t tag_bytes) {
  uint64_t table = 0;
  if (frame.size() < tag_bytes + kTableBytes) return false;
  std::memcpy(&table, frame.data() + tag_bytes, kTableBytes);
  return table == uint64_t{(frame.size() - tag_bytes - kTableBytes) / 8} << 32;
}

void AppendFrame(std::string* record, const std::string& bytes) {
  if (bytes.size() > 0xffff) std::abort();
  *record += static_cast<char>(bytes.size() & 0xff);
  *record += static_cast<char>(bytes.size() >> 8);
  *record += bytes;
}

}  // namespace

void SeedFolder::Add(const std::string& target, const std::string& name, const std::string& bytes) {
  const std::filesystem::path folder = std::filesystem::path(directory_) / target;
  std::filesystem::create_directories(folder);
  std::ofstream file(folder / name, std::ios::binary);
  file << bytes;
  if (!file.flush()) std::abort();
  ++count_;
}

std::string BytesOf(const control::Frame& frame) {
  return std::string(reinterpret_cast<const char*>(frame.data()), frame.size());
}

std::string RecordOf(uint8_t sender, const control::Message& message, bool raw) {
  const size_t tag_bytes = message.empty() ? 0 : TagBytes(message[0]);
  const bool strips = !raw && !message.empty() && IsOneSegment(message[0], tag_bytes);
  std::string record;
  record += static_cast<char>(strips ? sender | kNeedsTable : sender);
  record += static_cast<char>(message.size());
  for (size_t i = 0; i < message.size(); ++i) {
    const std::string bytes = BytesOf(message[i]);
    AppendFrame(&record, i == 0 && strips ? bytes.substr(tag_bytes + kTableBytes) : bytes);
  }
  return record;
}

control::Frame SomeOutputLines() {
  return control::EncodeMessage<wire::OutputLines>([](wire::OutputLines::Builder message) {
    auto lines = message.initLines(2);
    lines[0].setText(kj::StringPtr("a line\x1b[2J").asBytes());
    lines[1].setStream(wire::OutputLine::Stream::STDERR);
    lines[1].setDropped(2);
  });
}

}  // namespace lockstep::fuzz
