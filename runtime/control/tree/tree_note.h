// What controller, relays and workers tell each other about the tree itself. Every message of the
// tree's own begins with a frame that begins with a TreeNote; no other message does.
//
// By a worker's own connection with the controller:
//
//     worker       kHere      I am in this tree; children reach me there, and I show this key
//     controller   kChild     this child may come, and shows that key          (to the parent)
//                  kParent    there is your parent                              (to the child)
//                  kStart     from now on all that is for everybody comes in packets
//     worker       kAttached  my parent gives me all that follows: send me no more
//     controller   kTakenOver all that you have said yourself has come: go on through your parent
//     controller   kOrphan    your parent is lost, or is not to be relied on
//     worker       kReturned  I have no parent; the last packet that I have got is that one
//     controller   kForget    that child is none of yours any more              (to the parent)
//                  kSayAgain  one of your bundles was lost on your own connection
//                  kLeave     after that packet the tree ends: what follows comes as without it;
//                             whoever misses some until then says kReturned, too
//
// Between child and parent: kJoin, answered by kJoined; kLeft; kForget, in answer to one that has
// not joined, or that brings what it may not: it is to return. By both kinds of connections,
// downwards kPacket (packet.h) and kTaken, upwards kBundle (packet.h).
//
// Packets are numbered without gaps for as long as the controller runs; so whoever has got packet n
// can go on with n + 1 from anybody.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "runtime/control/channel.h"
#include "runtime/control/tree/tree_keys.h"

namespace lockstep::control {

inline constexpr uint64_t kTreeMagic = 0x31'45'45'52'54'53'4b'4cULL;  // "LKSTREE1"

// The numbers are those on the wire.
enum class TreeWord : uint64_t {
  kHere = 1,      // texts: endpoint and key for children (empty: it takes none), key as a child
  kChild = 2,     // value: its place; texts: the key that it shows (empty: none), and the numbers,
                  // of eight bytes, of it and of all below it: whose answers it may bring
  kParent = 3,    // value: the child's place; texts: endpoint, key (empty: none)
  kStart = 4,     // value: the packet before the first
  kAttached = 5,  // value: the last packet that was got
  kOrphan = 6,    //
  kReturned = 7,  // value: the last packet that was got; texts: what was wrong with the parent
  kForget = 8,    // value: the child's place
  kLeave = 9,     // value: the last packet
  kJoin = 10,     // value: how far it and all below it are; texts: eight bytes, its place
  kJoined = 11,   // value: the last packet before the first that the parent passes on
  kLeft = 12,     //
  kPacket = 13,   // value: its number
  kBundle = 14,   // value: its number among those of that worker that have answers
  kTaken = 15,    // value: bundles up to this one need not be kept
  kTakenOver = 16,  // value: as that of kTaken
  kSayAgain = 17,   // value: the last bundle before one that is missing
};

struct TreeNote {
  uint64_t magic = kTreeMagic;
  TreeWord word = TreeWord::kHere;
  uint64_t world = 0;  // which tree: each has another number, greater than those before it
  uint64_t value = 0;
};

// A controller's tree, as one worker is told of it beside its welcome.
struct TreeOffer {
  uint64_t world = 0;   // 0: there is none
  uint64_t worker = 0;  // names the worker in what it says, in this tree and in others
  bool has_children = false;
  StreamPublicKey controller;
  AnswerKey answers;
};

Message MakeNote(TreeWord word, uint64_t world, uint64_t value,
                 std::initializer_list<std::string_view> texts = {});
// None: the message is not one of the tree's.
std::optional<TreeNote> ReadTreeNote(const Message& message);
// The text at `index`; empty if there is none.
std::string_view TextOfNote(const Message& message, size_t index);

}  // namespace lockstep::control
