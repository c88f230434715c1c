#include "runtime/control/protocol.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "schemas/protocol.capnp.h"

namespace lockstep::control {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tags, like Cap'n Proto's messages, are little-endian in memory");

constexpr uint32_t kMagicMask = 0xffffff;
// Of what a stranger says about itself.
constexpr size_t kMostTextBytes = 500;

// "0.1.0" as three numbers.
constexpr std::array<uint8_t, 3> ReleaseOf(std::string_view version) {
  std::array<uint8_t, 3> numbers{};
  size_t part = 0;
  for (const char c : version) {
    if (c == '.') {
      if (++part == numbers.size()) break;
    } else if (c >= '0' && c <= '9') {
      numbers[part] = static_cast<uint8_t>(numbers[part] * 10 + (c - '0'));
    } else {
      break;
    }
  }
  return numbers;
}

struct Tag {
  Protocol protocol = Protocol::kNone;
  uint8_t version = 0;
  std::array<uint8_t, 3> release{};
};

// None: the bytes do not begin with a tag.
std::optional<Tag> ReadTag(const Frame& frame) {
  if (frame.size() < kTagBytes) return std::nullopt;
  std::array<uint8_t, kTagBytes> bytes{};
  std::memcpy(bytes.data(), frame.data(), bytes.size());
  uint32_t start = 0;
  std::memcpy(&start, bytes.data(), sizeof start);
  if ((start & kMagicMask) != TagStart(Protocol::kNone)) return std::nullopt;
  return Tag{Protocol{bytes[3]}, bytes[4], {bytes[5], bytes[6], bytes[7]}};
}

std::string_view SpeakerOf(Protocol protocol) {
  switch (protocol) {
    case Protocol::kClientToController:
      return "a client";
    case Protocol::kControllerToClient:
      return "a controller's client port";
    case Protocol::kWorkerToController:
      return "a worker";
    case Protocol::kControllerToWorker:
      return "a controller's worker port";
    case Protocol::kLiveness:
      return "a liveness socket";
    case Protocol::kBulkRequest:
      return "a client that copies tensors";
    case Protocol::kBulkReply:
      return "a worker's bulk socket";
    case Protocol::kNone:
    case Protocol::kWrongProtocol:
      break;
  }
  return "a program";
}

std::string Cut(capnp::Text::Reader text) { return ToString(text).substr(0, kMostTextBytes); }

// As the sender describes itself; empty if that cannot be read.
struct Introduction {
  std::string speaker;
  std::string hint;
};

Introduction ReadIntroduction(const Frame& frame) {
  Introduction introduction;
  (void)DecodeMessage<wire::WrongProtocol>(frame, [&](wire::WrongProtocol::Reader reader) {
    introduction = {Cut(reader.getSpeaker()), Cut(reader.getHint())};
    return OkStatus();
  });
  return introduction;
}

std::string WithRelease(std::string_view speaker, const std::array<uint8_t, 3>& release) {
  return std::string(speaker) + " of Lockstep " + std::to_string(release[0]) + "." +
         std::to_string(release[1]) + "." + std::to_string(release[2]);
}

}  // namespace

uint64_t TagOf(Protocol protocol) {
  constexpr std::array<uint8_t, 3> kRelease = ReleaseOf(kBuildVersion);
  return uint64_t{TagStart(protocol)} | uint64_t{kProtocolVersion} << 32 |
         uint64_t{kRelease[0]} << 40 | uint64_t{kRelease[1]} << 48 | uint64_t{kRelease[2]} << 56;
}

Status CheckProtocol(const Frame& frame, Protocol expected, std::string_view endpoint) {
  if (HasTag(frame, expected)) return OkStatus();
  const std::string answers =
      endpoint.empty() ? " sent a message" : " answers at " + std::string(endpoint);
  const std::optional<Tag> tag = ReadTag(frame);
  if (!tag.has_value()) {
    return InvalidArgument("a program that is not Lockstep, or one older than protocol version ",
                           kOldestProtocolVersion, ",", answers, ", not ", SpeakerOf(expected),
                           ": its ", frame.size(), " bytes do not begin with a tag of Lockstep");
  }
  const std::string speaker = WithRelease(SpeakerOf(tag->protocol), tag->release);
  if (tag->protocol == expected) {
    return FailedPrecondition(speaker, answers, ", in protocol version ", tag->version,
                              "; this process (Lockstep ", kBuildVersion,
                              ") understands none before ", kOldestProtocolVersion);
  }
  if (tag->protocol != Protocol::kWrongProtocol) {
    return FailedPrecondition(speaker, answers, ", not ", SpeakerOf(expected));
  }
  const Introduction self = ReadIntroduction(frame);
  return FailedPrecondition(self.speaker.empty() ? speaker : self.speaker, answers, ", not ",
                            SpeakerOf(expected), self.hint.empty() ? "" : "; ", self.hint);
}

std::optional<Frame> AnswerToStranger(const Frame& frame, Protocol takes, Protocol speaks,
                                      std::string_view hint) {
  const std::optional<Tag> tag = ReadTag(frame);
  if (!tag.has_value() || tag->protocol == takes || tag->protocol == Protocol::kWrongProtocol) {
    return std::nullopt;
  }
  return EncodeMessage<wire::WrongProtocol>([&](wire::WrongProtocol::Builder answer) {
    answer.setSpeaker(WithRelease(SpeakerOf(speaks), ReleaseOf(kBuildVersion)));
    answer.setHint(std::string(hint));
  });
}

}  // namespace lockstep::control
