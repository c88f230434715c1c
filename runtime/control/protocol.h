// Which protocol a message belongs to: the tag that every first frame begins with
// (schemas/protocol.capnp). It is looked at before anything else of a message, so that an answer of
// one protocol is never read as another's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/base/version.h"
#include "runtime/control/channel.h"

namespace lockstep::wire {
struct ClientMessage;
struct ControllerMessage;
struct WorkerMessage;
struct Envelope;
struct LivenessMessage;
struct BulkRequest;
struct BulkReply;
struct WrongProtocol;
}  // namespace lockstep::wire

namespace lockstep::control {

// The numbers are those on the wire.
enum class Protocol : uint8_t {
  kNone = 0,  // a part of a message, or what is not sent
  kClientToController = 1,
  kControllerToClient = 2,
  kWorkerToController = 3,
  kControllerToWorker = 4,
  kLiveness = 5,
  kBulkRequest = 6,
  kBulkReply = 7,
  kWrongProtocol = 8,
};

// The protocol whose messages have `Schema` as their root.
template <typename Schema>
inline constexpr Protocol kProtocolOf = Protocol::kNone;
template <>
inline constexpr Protocol kProtocolOf<wire::ClientMessage> = Protocol::kClientToController;
template <>
inline constexpr Protocol kProtocolOf<wire::ControllerMessage> = Protocol::kControllerToClient;
template <>
inline constexpr Protocol kProtocolOf<wire::WorkerMessage> = Protocol::kWorkerToController;
template <>
inline constexpr Protocol kProtocolOf<wire::Envelope> = Protocol::kControllerToWorker;
template <>
inline constexpr Protocol kProtocolOf<wire::LivenessMessage> = Protocol::kLiveness;
template <>
inline constexpr Protocol kProtocolOf<wire::BulkRequest> = Protocol::kBulkRequest;
template <>
inline constexpr Protocol kProtocolOf<wire::BulkReply> = Protocol::kBulkReply;
template <>
inline constexpr Protocol kProtocolOf<wire::WrongProtocol> = Protocol::kWrongProtocol;

// One word: what follows it stays aligned, and is read in place.
inline constexpr size_t kTagBytes = 8;
static_assert(kProtocolVersion <= UINT8_MAX, "the tag has one byte for it");

// The first half of a tag: "LKS" and the protocol, as they are in memory.
constexpr uint32_t TagStart(Protocol protocol) {
  return uint32_t{'L'} | uint32_t{'K'} << 8 | uint32_t{'S'} << 16 |
         static_cast<uint32_t>(protocol) << 24;
}

// The tag of a message that this process sends, as one word in memory.
uint64_t TagOf(Protocol protocol);

// True if `frame` begins with the tag of a message of `protocol`, of a version that is understood.
inline bool HasTag(const Frame& frame, Protocol protocol) {
  if (frame.size() < kTagBytes) return false;
  uint32_t start = 0;
  std::memcpy(&start, frame.data(), sizeof start);
  return start == TagStart(protocol) &&
         static_cast<uint8_t>(frame.data()[sizeof start]) >= kOldestProtocolVersion;
}

// OK if HasTag(). Else who sent `frame`, and that it is not who speaks `expected`:
// kFailedPrecondition if the sender is of another protocol, or older than what is understood;
// kInvalidArgument if the bytes have no tag. `endpoint`, if not empty, is where it answers.
Status CheckProtocol(const Frame& frame, Protocol expected, std::string_view endpoint = "");

// What a socket that takes `takes`, and answers in `speaks`, tells the sender of a message of
// another protocol: who listens, and `hint` where to go instead (may be empty). Nothing if the
// message is of the right protocol, has no tag, or is itself such an answer: two listeners never
// answer each other.
std::optional<Frame> AnswerToStranger(const Frame& frame, Protocol takes, Protocol speaks,
                                      std::string_view hint);

}  // namespace lockstep::control
