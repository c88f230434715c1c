// What is said when rings are handed over to a peer (a worker, or a client), beside the memory.
//
//     welcome      (by socket)  where to ask, and a nonce: RingOffer
//     peer         (by link)    the nonce
//     controller   (by link)    a RingPlace, and two descriptors: broadcast and answer memory
//     peer         (by link)    that it has mapped them
//     controller   (by socket)  a note: messages are in the ring from a position on
//     peer         (by socket)  a note: messages are numbered from now on
//
// Then each message from the controller is a record of the ring; for one that travels by socket, as
// large ones do and those for one worker alone, the record says only that. To a client a note in
// front of it says how many have, so that it sees if one is lost. Messages from a peer are
// numbered, in the ring or, by socket, by a note in front. So all that one says to another keeps
// its order.
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

// Words of the two rings of a peer.
struct RingSizes {
  uint64_t broadcast = 0;  // from the controller
  uint64_t answers = 0;    // to it
};
// Workers read one ring together, and answer little; clients say more than they are told.
inline constexpr RingSizes kWorkerRings = {(uint64_t{4} << 20) / 8, (uint64_t{256} << 10) / 8};
inline constexpr RingSizes kClientRings = {(uint64_t{256} << 10) / 8, (uint64_t{1} << 20) / 8};

// Who waits for what comes by ring looks at the sockets in one of so many turns: that is some
// system calls, and a look at a ring none.
inline constexpr unsigned kSocketsEvery = 32;

// A frame in front of a message, or alone.
struct RingNote {
  uint64_t magic = 0;
  uint64_t value = 0;
};
// From the controller: read the ring from this position on.
inline constexpr uint64_t kSwitchMagic = 0x31'47'4e'49'52'53'4b'4cULL;  // "LKSRING1"
// From a peer: the number of the message that follows; 0: the first one is yet to come. The latter
// may be said again, should it have been lost.
inline constexpr uint64_t kNumberMagic = 0x32'47'4e'49'52'53'4b'4cULL;  // "LKSRING2"

// From the controller, to a client: how many messages have come by socket with the one that
// follows.
inline constexpr uint64_t kBySocketMagic = 0x33'47'4e'49'52'53'4b'4cULL;  // "LKSRING3"

inline Frame NoteFrame(uint64_t magic, uint64_t value) {
  const RingNote note{magic, value};
  return Frame::Copy(&note, sizeof note);
}
// `message` with a note in front of it.
inline Message WithNote(uint64_t magic, uint64_t value, const Message& message) {
  Message noted{NoteFrame(magic, value)};
  noted.insert(noted.end(), message.begin(), message.end());
  return noted;
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
  RingSizes words;
};
inline constexpr char kRingMapped[] = "mapped";

}  // namespace lockstep::control
