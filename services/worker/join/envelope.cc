#include "services/worker/join/envelope.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "runtime/base/version.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "schemas/control.capnp.h"

namespace lockstep::worker {
namespace {

// Cut to what can be added up and subtracted.
std::chrono::nanoseconds Nanos(uint64_t nanos) {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max() / 4);
  return std::chrono::nanoseconds(std::min(nanos, kMost));
}

BatchContext ReadBatch(wire::Envelope::Reader reader) {
  BatchContext batch{SessionId(reader.getSession()), Generation(reader.getGeneration()),
                     reader.getFirstCommand(), RequestId(reader.getRequest())};
  batch.times.in_client = Nanos(reader.getClientNanos());
  batch.times.in_controller = Nanos(reader.getControllerNanos());
  batch.sent = Nanos(reader.getSentNanos());
  return batch;
}

Status Read(wire::Envelope::Reader reader, const control::Message& message, Envelope* envelope) {
  envelope->epoch = Epoch(reader.getEpoch());
  envelope->sequence = reader.getSequence();
  switch (reader.which()) {
    case wire::Envelope::BATCH:
      if (message.size() != 2) return Internal("a batch of the controller has no body");
      envelope->content = ReadBatch(reader);
      return OkStatus();
    case wire::Envelope::WELCOME: {
      if (message.size() != 2) return Internal("a welcome of the controller names no arenas");
      LOCKSTEP_ASSIGN_OR_RETURN(Membership membership,
                                ReadWelcome(envelope->epoch, reader.getWelcome(), message[1]));
      envelope->content = std::move(membership);
      return OkStatus();
    }
    case wire::Envelope::REFUSED:
      envelope->content =
          Envelope::Refused{control::ReadError(reader.getRefused().getError()).ToStatus()};
      return OkStatus();
    case wire::Envelope::SHUTDOWN:
      envelope->content = Envelope::Shutdown{control::ToString(reader.getShutdown())};
      return OkStatus();
    case wire::Envelope::WAITING:
      envelope->content = Envelope::Waiting{};
      return OkStatus();
    case wire::Envelope::OUT_OF_REACH:
      envelope->content = Envelope::OutOfReach{control::ToString(reader.getOutOfReach())};
      return OkStatus();
  }
  return Unimplemented("unknown kind of message ", static_cast<int>(reader.which()),
                       "; this worker is Lockstep ", kBuildVersion);
}

}  // namespace

StatusOr<Envelope> ReadEnvelope(const control::Message& message) {
  if (message.empty()) return Internal("the controller sent an empty message");
  Envelope envelope;
  LOCKSTEP_RETURN_IF_ERROR(control::DecodeMessage<wire::Envelope>(
      message[0], [&](wire::Envelope::Reader reader) { return Read(reader, message, &envelope); }));
  return envelope;
}

}  // namespace lockstep::worker
