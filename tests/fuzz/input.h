// How the harnesses read one input as messages.
//
// An input of several messages is a row of records:
//
//     sender (1 byte)  frames (1 byte)  then for each frame: size (2 bytes, little-endian), bytes
//
// What the sender means is up to the harness. A record that is cut off ends with the input:
// whatever bytes a fuzzer makes up are some row of messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/control/channel.h"
#include "runtime/control/protocol.h"

namespace lockstep::fuzz {

// In `sender`: the first frame is one Cap'n Proto segment, without the tag of its protocol and the
// table that stand in front of it on the wire; the harness puts them there. A fuzzer that adds or
// drops bytes would hardly ever get them right.
inline constexpr uint8_t kNeedsTable = 0x80;

struct Record {
  uint8_t sender = 0;  // without kNeedsTable
  control::Message message;
};

// What is only known when the harness runs, by the eight letters that stand for it in an input
// wherever a word of a frame begins: "SEQUENCE".
using Placeholders = std::map<std::string, uint64_t>;

// `protocol` is that of the messages.
std::vector<Record> ReadRecords(const uint8_t* data, size_t size, control::Protocol protocol);

// `segment`, filled up to whole words, as the one segment of a message of `protocol` (kNone:
// without a tag).
control::Frame WithTable(const uint8_t* segment, size_t size,
                         control::Protocol protocol = control::Protocol::kNone);

// `message` with every word that is a placeholder's name replaced.
control::Message Fill(const control::Message& message, const Placeholders& placeholders);

}  // namespace lockstep::fuzz
