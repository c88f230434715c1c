// What is said when rings are handed over, beside the memory itself.
//
//     welcome      (by socket)  where to ask, and a nonce: RingOffer
//     worker       (by link)    the nonce
//     controller   (by link)    a RingPlace, and two descriptors: broadcast and answer memory
//     worker       (by link)    that it has mapped them
//     controller   (by socket)  a note: from this message on, messages are in the ring at a
//     position worker       (by socket)  a note: from this message on, messages are numbered
//
// Then each message from the controller is a record of the ring; for one that travels by socket, as
// large ones do and those for one worker alone, the record says only that. Messages from a worker
// are numbered, in the ring or, by socket, by a note in front. So all that one peer says to another
// keeps its order.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "runtime/control/channel.h"

namespace lockstep::control {

struct RingOffer {
  std::string address;
  std::string nonce;  // empty: there is no offer
};

// Of a controller for its workers, and of each worker for its controller; workers answer little.
inline constexpr uint64_t kBroadcastWords = (uint64_t{4} << 20) / 8;
inline constexpr uint64_t kAnswerWords = (uint64_t{256} << 10) / 8;

// Who waits for what comes by ring looks at the sockets in one of so many turns: that is some
// system calls, and a look at a ring none.
inline constexpr unsigned kSocketsEvery = 8;

// A frame in front of a message, or alone.
struct RingNote {
  uint64_t magic = 0;
  uint64_t value = 0;
};
// From the controller: read the ring from this position on.
inline constexpr uint64_t kSwitchMagic = 0x31'47'4e'49'52'53'4b'4cULL;  // "LKSRING1"
// From a worker: the number of the message that follows; 0: the first one is yet to come.
inline constexpr uint64_t kNumberMagic = 0x32'47'4e'49'52'53'4b'4cULL;  // "LKSRING2"

inline Frame NoteFrame(uint64_t magic, uint64_t value) {
  const RingNote note{magic, value};
  return Frame::Copy(&note, sizeof note);
}
// The value of the note that `message` begins with; none: it begins with none.
inline std::optional<uint64_t> ReadNote(uint64_t magic, const Message& message) {
  RingNote note;
  if (message.empty() || message[0].size() != sizeof note) return std::nullopt;
  std::memcpy(&note, message[0].data(), sizeof note);
  if (note.magic != magic) return std::nullopt;
  return note.value;
}

// What the controller says beside the descriptors.
struct RingPlace {
  uint64_t slot = 0;
  uint64_t slots = 0;
};
inline constexpr char kRingMapped[] = "mapped";

}  // namespace lockstep::control
