// Packets, in which the controller's messages to all workers go down, and bundles, in which the
// workers' answers come up. Both hold many small messages, or a large one whose frames are passed
// on as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/tree/tree_keys.h"
#include "runtime/control/tree/tree_note.h"

namespace lockstep::control {

// A message of more is not copied: it makes a packet or a bundle of its own.
inline constexpr size_t kLargestPacked = size_t{32} << 10;
// One that has reached so much is sent.
inline constexpr size_t kEnoughPacked = size_t{64} << 10;

// No bundle has more in the frame of its packed answers, whatever level it has come from.
inline constexpr size_t kMostPacked = kEnoughPacked + kLargestPacked + 1024;  // for headers
// A larger frame of a worker ends its connection with the controller, ...
inline constexpr int64_t kMostWorkerBytes = int64_t{128} << 20;
// ... so a relay takes none from those below it that it could not pass on.
inline constexpr int64_t kMostRelayedBytes = kMostWorkerBytes - 4096;

// What leaves together. Threads: one at a time.
class PacketWriter {
 public:
  bool empty() const { return words_.empty(); }
  bool is_full() const { return words_.size() * sizeof(uint64_t) >= kEnoughPacked; }
  // A message of at most kLargestPacked bytes.
  void Add(const Message& message);
  // All that was added, as packet `number`, and is empty then.
  Message Seal(uint64_t world, uint64_t number, const StreamSigner& signer);
  // A message that is a packet by itself. It has at most kMostFlatFrames - 2 frames.
  static Message SealWhole(const Message& message, uint64_t world, uint64_t number,
                           const StreamSigner& signer);

 private:
  std::vector<uint64_t> words_;
};

// True if the controller has made `packet` so.
bool IsSigned(const Message& packet, const StreamPublicKey& controller);
// Calls `take` with each message of a packet, in order. kInvalidArgument: it is none.
Status ReadPacket(const Message& packet, const std::function<void(Message)>& take);

// The answers of one worker, each with its number and tag, until they leave; and those of others,
// which are passed on as they are.
//
// A bundle is a BundleHeader, a frame with packed answers, and the frames of a large one, if any.
class BundleWriter {
 public:
  bool empty() const { return words_.empty() && large_.empty(); }
  bool is_full() const {
    return !large_.empty() || words_.size() * sizeof(uint64_t) >= kEnoughPacked;
  }
  // A message of `worker`. Not while it is full.
  void Add(uint64_t worker, const AnswerKey& key, uint64_t number, const Message& message);
  // All of another bundle. False if this one is to leave first.
  // kInvalidArgument: it is no bundle.
  StatusOr<bool> Append(const Message& bundle);
  // All that was added, and is empty then. `kept_from`: the first bundle that the sender keeps.
  Message Take(uint64_t world, uint64_t number, uint64_t consumed, uint64_t kept_from = 0);

 private:
  std::vector<uint64_t> words_;
  Message large_;  // frames of the last answer
};

// How far the sender and all below it have got: no earlier packet is needed any more.
StatusOr<uint64_t> ConsumedOf(const Message& bundle);
// The same bundle, with what is to be said of it now.
Message WithHeader(Message bundle, uint64_t world, uint64_t number, uint64_t consumed,
                   uint64_t kept_from);
// Whether one is missing between the bundle `last` of the same sender and this one: one that has
// not arrived by another connection either, as the sender keeps it. One without answers has the
// number of the last one with some.
bool IsAfterAGap(const Message& bundle, uint64_t last);

struct Answer {
  uint64_t worker = 0;
  uint64_t number = 0;
  AnswerTag tag{};
  Message message;
};
// Calls `take` with each answer, in order, unchecked. kInvalidArgument: it is no bundle.
Status ReadBundle(const Message& bundle, const std::function<void(Answer)>& take);
// Whether a relay may pass `bundle` on: it would be taken for the one who says what is in it.
// kInvalidArgument: it is no bundle; kPermissionDenied: it has an answer of a worker that
// `may_speak` is false for.
Status CheckBundle(const Message& bundle, const std::function<bool(uint64_t worker)>& may_speak);

}  // namespace lockstep::control
