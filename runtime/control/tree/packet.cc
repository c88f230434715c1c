#include "runtime/control/tree/packet.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "runtime/control/tree/flat_message.h"

namespace lockstep::control {
namespace {

struct PacketHeader {
  TreeNote note;
  StreamSignature signature;
};

struct BundleHeader {
  TreeNote note;
  uint64_t consumed = 0;
  uint64_t kept_from = 0;
};

// In front of an answer.
struct AnswerHeader {
  uint64_t worker = 0;
  uint64_t number = 0;
  AnswerTag tag{};
  uint64_t is_large = 0;  // its frames are the bundle's last ones
};
static_assert(sizeof(AnswerHeader) % sizeof(uint64_t) == 0);

// The header, and what it says is in it.
constexpr size_t kFramesBefore = 2;

absl::Span<const std::byte> BytesOf(const TreeNote& note) {
  return {reinterpret_cast<const std::byte*>(&note), sizeof note};
}

template <typename Header>
std::optional<Header> HeaderOf(const Message& message) {
  Header header;
  if (message.empty() || message[0].size() != sizeof header) return std::nullopt;
  std::memcpy(&header, message[0].data(), sizeof header);
  return header;
}

absl::Span<const Frame> AfterHeader(const Message& message) {
  return absl::MakeConstSpan(message).subspan(1);
}

Message SignedPacket(Message message, uint64_t world, uint64_t number, const StreamSigner& signer) {
  PacketHeader header{{kTreeMagic, TreeWord::kPacket, world, number}, {}};
  header.signature = signer.Sign(BytesOf(header.note), AfterHeader(message));
  message[0] = Frame::Copy(&header, sizeof header);
  return message;
}

}  // namespace

void PacketWriter::Add(const Message& message) { AppendFlat(message, words_); }

Message PacketWriter::Seal(uint64_t world, uint64_t number, const StreamSigner& signer) {
  return SignedPacket({Frame(), FrameOfWords(std::exchange(words_, {}))}, world, number, signer);
}

Message PacketWriter::SealWhole(const Message& message, uint64_t world, uint64_t number,
                                const StreamSigner& signer) {
  Message packet{Frame(), Frame()};
  packet.insert(packet.end(), message.begin(), message.end());
  return SignedPacket(std::move(packet), world, number, signer);
}

bool IsSigned(const Message& packet, const StreamPublicKey& controller) {
  const auto header = HeaderOf<PacketHeader>(packet);
  if (!header.has_value()) return false;
  return controller.Signed(header->signature, BytesOf(header->note), AfterHeader(packet));
}

Status ReadPacket(const Message& packet, const std::function<void(Message)>& take) {
  if (packet.size() < kFramesBefore) return InvalidArgument("a packet without content");
  Message message(packet.begin() + kFramesBefore, packet.end());
  FlatReader reader(packet[1]);
  if (!message.empty() && reader.AtEnd()) {
    take(std::move(message));
    return OkStatus();
  }
  while (!reader.AtEnd()) {
    LOCKSTEP_RETURN_IF_ERROR(reader.TakeMessage(&message));
    take(std::move(message));
  }
  return OkStatus();
}

void BundleWriter::Add(uint64_t worker, const AnswerKey& key, uint64_t number,
                       const Message& message) {
  const bool is_large = SizeOf(message) > kLargestPacked;
  const AnswerHeader header{worker, number, key.TagOf(number, message), is_large ? 1u : 0u};
  const size_t at = words_.size();
  words_.resize(at + sizeof header / sizeof(uint64_t));
  std::memcpy(words_.data() + at, &header, sizeof header);
  if (is_large) {
    large_ = message;
  } else {
    AppendFlat(message, words_);
  }
}

StatusOr<bool> BundleWriter::Append(const Message& bundle) {
  if (bundle.size() < kFramesBefore || bundle[1].size() % sizeof(uint64_t) != 0) {
    return InvalidArgument("a bundle of ", bundle.size(), " frames cannot be passed on");
  }
  const bool is_large = bundle.size() > kFramesBefore;
  if (is_full()) return false;
  const size_t at = words_.size();
  // Else it would grow with each level, and pass for one that no honest worker has made.
  if (at > 0 && at * sizeof(uint64_t) + bundle[1].size() > kMostPacked) return false;
  words_.resize(at + bundle[1].size() / sizeof(uint64_t));
  if (bundle[1].size() > 0) std::memcpy(words_.data() + at, bundle[1].data(), bundle[1].size());
  if (is_large) large_.assign(bundle.begin() + kFramesBefore, bundle.end());
  return true;
}

Message BundleWriter::Take(uint64_t world, uint64_t number, uint64_t consumed, uint64_t kept_from) {
  Message bundle{Frame(), FrameOfWords(std::exchange(words_, {}))};
  bundle.insert(bundle.end(), large_.begin(), large_.end());
  large_.clear();
  return WithHeader(std::move(bundle), world, number, consumed, kept_from);
}

Message WithHeader(Message bundle, uint64_t world, uint64_t number, uint64_t consumed,
                   uint64_t kept_from) {
  const BundleHeader header{{kTreeMagic, TreeWord::kBundle, world, number}, consumed, kept_from};
  bundle[0] = Frame::Copy(&header, sizeof header);
  return bundle;
}

bool IsAfterAGap(const Message& bundle, uint64_t last) {
  const auto header = HeaderOf<BundleHeader>(bundle);
  if (!header.has_value() || bundle.size() < kFramesBefore) return false;
  const uint64_t own = bundle[1].size() > 0 ? 1 : 0;
  const uint64_t arrived = std::max(last, std::max<uint64_t>(header->kept_from, 1) - 1);
  return header->note.value > arrived && header->note.value - arrived > own;
}

StatusOr<uint64_t> ConsumedOf(const Message& bundle) {
  const auto header = HeaderOf<BundleHeader>(bundle);
  if (!header.has_value()) return InvalidArgument("not a bundle");
  return header->consumed;
}

Status ReadBundle(const Message& bundle, const std::function<void(Answer)>& take) {
  if (bundle.size() < kFramesBefore) return InvalidArgument("a bundle without content");
  FlatReader reader(bundle[1]);
  bool has_large = false;
  while (!reader.AtEnd()) {
    Frame bytes;
    AnswerHeader header;
    LOCKSTEP_RETURN_IF_ERROR(reader.TakeBytes(sizeof header, &bytes));
    std::memcpy(&header, bytes.data(), sizeof header);
    Answer answer{header.worker, header.number, header.tag, {}};
    if (header.is_large == 0) {
      LOCKSTEP_RETURN_IF_ERROR(reader.TakeMessage(&answer.message));
    } else if (reader.AtEnd() && bundle.size() > kFramesBefore) {
      answer.message.assign(bundle.begin() + kFramesBefore, bundle.end());
    } else {
      return InvalidArgument("a large answer is not the last one of its bundle");
    }
    has_large = header.is_large != 0;
    take(std::move(answer));
  }
  if (bundle.size() > kFramesBefore && !has_large) {
    return InvalidArgument("a bundle has frames that are of no answer");
  }
  return OkStatus();
}

Status CheckBundle(const Message& bundle, const std::function<bool(uint64_t worker)>& may_speak) {
  if (bundle.size() > 1 && bundle[1].size() > kMostPacked) {
    return InvalidArgument("a bundle has packed answers of ", bundle[1].size(), " bytes");
  }
  std::optional<uint64_t> foreign;
  LOCKSTEP_RETURN_IF_ERROR(ReadBundle(bundle, [&](const Answer& answer) {
    if (!foreign.has_value() && !may_speak(answer.worker)) foreign = answer.worker;
  }));
  if (!foreign.has_value()) return OkStatus();
  return PermissionDenied("a bundle has an answer of worker ", *foreign,
                          ", which is not below the one that has sent it");
}

}  // namespace lockstep::control
