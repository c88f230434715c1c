#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "runtime/control/shm/record.h"
#include "tests/fuzz/seeds.h"

namespace lockstep::fuzz {
namespace {

template <typename T>
std::string RawBytes(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string RingRecord(uint64_t number, const std::vector<std::string>& frames,
                       control::RecordKind kind = control::RecordKind::kMessage,
                       uint64_t words = 0) {
  std::string body;
  for (const std::string& frame : frames) body += RawBytes(uint64_t{frame.size()});
  for (const std::string& frame : frames) {
    body += frame;
    body.resize((body.size() + control::kRingWordBytes - 1) / control::kRingWordBytes *
                control::kRingWordBytes);
  }
  if (words == 0) words = control::kRecordHeaderWords + body.size() / control::kRingWordBytes;
  return RawBytes(words | uint64_t{frames.size()} << 32 | static_cast<uint64_t>(kind) << 48) +
         RawBytes(number) + body;
}

std::string Piece(const std::string& bytes, int grows) {
  return RawBytes(static_cast<int16_t>(grows)) + RawBytes(static_cast<uint16_t>(bytes.size())) +
         bytes;
}
std::string Piece(const std::string& bytes) {
  return Piece(bytes, static_cast<int>(bytes.size() / control::kRingWordBytes));
}

}  // namespace

void AddRingSeeds(SeedFolder& folder) {
  folder.Add("rings", "two_messages",
             Piece(RingRecord(1, {"answer"}) + RingRecord(2, {"envelope", "body of it"})));
  std::string around;
  for (uint64_t number = 1; number < 12; ++number) {
    around += Piece(RingRecord(number, {std::string(9 * number, 'x')}));
  }
  folder.Add("rings", "around_the_end", around);
  folder.Add("rings", "head_goes_back", Piece(RingRecord(1, {"a"})) + Piece("", -3));
  folder.Add("rings", "longer_than_the_ring",
             Piece(RingRecord(1, {"a"}, control::RecordKind::kMessage, 4000)));
  std::string too_long = RingRecord(1, {"12345678"});
  too_long.replace(16, 8, RawBytes(std::numeric_limits<uint64_t>::max()));
  too_long.replace(24, 8, std::string(8, 0));
  folder.Add("rings", "frame_too_long", Piece(too_long));
  folder.Add("rings", "by_socket", Piece(RingRecord(1, {}, control::RecordKind::kBySocket)));
}

}  // namespace lockstep::fuzz
