#include "runtime/client/bulk_copy.h"

#include <algorithm>
#include <utility>

#include "runtime/base/fast_copy.h"
#include "runtime/control/input_waiter.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "schemas/bulk.capnp.h"

namespace lockstep::client {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;
// Chunks on their way at a time: enough to keep the wire busy, few enough to bound memory.
constexpr size_t kChunksUnderWay = 8;
constexpr std::chrono::microseconds kPollBeforeSleep{200};
// Whoever waits for worker-0 looks this often whether the session is still well.
constexpr std::chrono::milliseconds kLookEvery{50};

template <typename Fill>
control::Frame RequestFrame(uint64_t ticket, uint64_t offset, Fill&& fill) {
  return control::EncodeMessage<wire::BulkRequest>([&](wire::BulkRequest::Builder request) {
    request.setTicket(ticket);
    request.setOffset(offset);
    fill(request);
  });
}

}  // namespace

template <typename Copy>
Status BulkCopier::InChunks(Copy copy) {
  const Status status = copy();
  // Replies to a copy that failed half-way may still come: over a connection that nobody reads.
  if (!status.ok()) bulk_channel_.reset();
  return status;
}

Status BulkCopier::Write(const DRef& to, ConstBuffer from) {
  std::lock_guard lock(mutex_);
  LOCKSTEP_ASSIGN_OR_RETURN(const Location location, Locate(to));
  LOCKSTEP_RETURN_IF_ERROR(CheckMatches(location, from));
  if (from.count == 0) return OkStatus();
  if (location.memory == nullptr) return InChunks([&] { return WriteChunks(location, from); });
  FastCopy(location.memory, from.data, from.size_bytes());
  return OkStatus();
}

Status BulkCopier::Read(Buffer to, const DRef& from) {
  std::lock_guard lock(mutex_);
  LOCKSTEP_ASSIGN_OR_RETURN(const Location location, Locate(from));
  LOCKSTEP_RETURN_IF_ERROR(CheckMatches(location, to));
  if (to.count == 0) return OkStatus();
  if (location.memory == nullptr) return InChunks([&] { return ReadChunks(to, location); });
  FastCopy(to.data, location.memory, to.size_bytes());
  return OkStatus();
}

StatusOr<BulkCopier::Description> BulkCopier::Describe(const DRef& ref) {
  std::lock_guard lock(mutex_);
  LOCKSTEP_ASSIGN_OR_RETURN(const Location location, Locate(ref));
  return location.description;
}

Status BulkCopier::CheckMatches(const Location& location, ConstBuffer buffer) const {
  const Description& there = location.description;
  if (buffer.dtype == there.dtype &&
      buffer.count == static_cast<size_t>(there.shape.NumElements())) {
    return OkStatus();
  }
  return InvalidArgument("register ", location.id, " holds ", there.dtype, " ", there.shape, " (",
                         there.shape.NumElements(), " elements), the buffer has ", buffer.count,
                         " elements of ", buffer.dtype);
}

StatusOr<BulkCopier::Location> BulkCopier::Locate(const DRef& ref) {
  LOCKSTEP_RETURN_IF_ERROR(core_.CheckOwn(ref, "the register"));
  const RegisterId id = ref.id();
  const auto known = locations_.find(id.index);
  // A register keeps its memory for life, so a known place stays true; but commands that were
  // issued and not yet executed may still use what is there.
  if (known != locations_.end() && known->second.id == id && known->second.memory != nullptr &&
      core_.WorkerZeroIsIdle() && !NoticeReplacement()) {
    return known->second;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const control::Frame body,
                            core_.Ask(0, [&](wire::Command::Builder command) {
                              command.setOnlyRank(0);
                              command.initLocate().setRegister(id.Packed());
                            }));
  // Before its memory is mapped: what is known of another worker-0 may have the same names.
  NoticeReplacement();
  Location location;
  location.id = id;
  LOCKSTEP_RETURN_IF_ERROR(control::DecodeMessage<wire::TensorLocation>(
      body, [&](wire::TensorLocation::Reader reader) -> Status {
        LOCKSTEP_ASSIGN_OR_RETURN(location.description.dtype, control::FromWire(reader.getDtype()));
        LOCKSTEP_ASSIGN_OR_RETURN(
            location.description.shape,
            control::ReadShape(reader.getShape(), SizeOf(location.description.dtype)));
        location.ticket = reader.getTicket();
        location.memory =
            Map(control::ToString(reader.getSegment()), reader.getOffset(), location.size_bytes());
        return OkStatus();
      }));
  locations_[id.index] = location;
  return location;
}

bool BulkCopier::NoticeReplacement() {
  const SessionCore::WorkerZero now = core_.IdentifyWorkerZero();
  if (std::exchange(worker_zero_, now) == now) return false;
  locations_.clear();
  segments_.clear();
  bulk_channel_.reset();
  return true;
}

std::byte* BulkCopier::Map(const std::string& segment, uint64_t offset, size_t size_bytes) {
  if (segment.empty()) return nullptr;
  auto found = segments_.find(segment);
  if (found == segments_.end()) {
    // Not found: worker-0 is on another host. Either way the bulk socket works.
    auto opened = SharedSegment::Open(segment);
    found = segments_.emplace(segment, opened.ok() ? std::move(*opened) : nullptr).first;
  }
  const SharedSegment* mapped = found->second.get();
  if (mapped == nullptr || offset > mapped->capacity_bytes() ||
      size_bytes > mapped->capacity_bytes() - offset) {
    return nullptr;
  }
  return mapped->data() + offset;
}

StatusOr<control::ClientChannel*> BulkCopier::BulkChannel() {
  if (bulk_channel_ == nullptr) {
    const std::string endpoint = core_.BulkEndpoint();
    if (endpoint.empty()) return Unavailable("worker-0 takes no bulk copies");
    LOCKSTEP_ASSIGN_OR_RETURN(bulk_channel_, control::ZmqConnect(context_, endpoint));
  }
  return bulk_channel_.get();
}

Status BulkCopier::NextReply(control::ClientChannel& channel, const Location& location,
                             control::Frame* data, uint64_t* offset) {
  control::InputWaiter waiter(kPollBeforeSleep);
  control::Channel* const channels[] = {&channel};
  const Deadline deadline = Deadline::After(core_.timeout());
  control::Message message;
  while (!channel.Receive(&message)) {
    if (deadline.Expired()) {
      return DeadlineExceeded("rank 0 has not answered a bulk copy for ", core_.timeout().count(),
                              " ms");
    }
    // A worker that is lost cannot say so here; the controller does.
    if (!waiter.Wait(channels, {}, deadline.Earlier(Deadline::After(kLookEvery)))) {
      LOCKSTEP_RETURN_IF_ERROR(core_.Look());
    }
  }
  return ReadReply(message, location, data, offset);
}

Status BulkCopier::ReadReply(const control::Message& message, const Location& location,
                             control::Frame* data, uint64_t* offset) {
  if (message.empty()) return Internal("worker-0 sent an empty message");
  LOCKSTEP_RETURN_IF_ERROR(control::DecodeMessage<wire::BulkReply>(
      message[0], [&](wire::BulkReply::Reader reply) -> Status {
        if (reply.getTicket() != location.ticket) {
          return Internal("worker-0 answers about another tensor");
        }
        if (offset != nullptr) *offset = reply.getOffset();
        return reply.hasError() ? control::ReadError(reply.getError()).ToStatus() : OkStatus();
      }));
  if (data == nullptr) return OkStatus();
  if (message.size() < 2) return Internal("worker-0 sent a bulk reply without data");
  *data = message[1];
  return OkStatus();
}

Status BulkCopier::WriteChunks(const Location& location, ConstBuffer from) {
  LOCKSTEP_ASSIGN_OR_RETURN(control::ClientChannel* const channel, BulkChannel());
  const auto* bytes = static_cast<const std::byte*>(from.data);
  const size_t total = from.size_bytes();
  size_t under_way = 0;
  for (size_t offset = 0; offset < total; offset += kChunkBytes) {
    if (under_way == kChunksUnderWay) {
      LOCKSTEP_RETURN_IF_ERROR(NextReply(*channel, location, nullptr, nullptr));
      --under_way;
    }
    // Copied, because the caller's memory is borrowed only until we return, errors included.
    LOCKSTEP_RETURN_IF_ERROR(channel->Send(
        {RequestFrame(location.ticket, offset, [](auto request) { request.setWrite(); }),
         control::Frame::Copy(bytes + offset, std::min(kChunkBytes, total - offset))}));
    ++under_way;
  }
  LOCKSTEP_RETURN_IF_ERROR(
      channel->Send({RequestFrame(location.ticket, 0, [](auto request) { request.setFinish(); })}));
  for (++under_way; under_way > 0; --under_way) {
    LOCKSTEP_RETURN_IF_ERROR(NextReply(*channel, location, nullptr, nullptr));
  }
  return OkStatus();
}

Status BulkCopier::ReadChunks(Buffer to, const Location& location) {
  LOCKSTEP_ASSIGN_OR_RETURN(control::ClientChannel* const channel, BulkChannel());
  auto* bytes = static_cast<std::byte*>(to.data);
  const size_t total = to.size_bytes();
  size_t asked = 0;
  for (size_t received = 0; received < total;) {
    while (asked < total && asked - received < kChunksUnderWay * kChunkBytes) {
      const size_t size = std::min(kChunkBytes, total - asked);
      LOCKSTEP_RETURN_IF_ERROR(channel->Send(
          {RequestFrame(location.ticket, asked, [&](auto request) { request.setRead(size); })}));
      asked += size;
    }
    control::Frame data;
    uint64_t offset = 0;
    LOCKSTEP_RETURN_IF_ERROR(NextReply(*channel, location, &data, &offset));
    if (offset > total || data.size() > total - offset || data.size() == 0) {
      return Internal("worker-0 sent ", data.size(), " bytes at ", offset, " of a tensor of ",
                      total, " bytes");
    }
    std::copy_n(data.data(), data.size(), bytes + offset);
    received += data.size();
  }
  LOCKSTEP_RETURN_IF_ERROR(
      channel->Send({RequestFrame(location.ticket, 0, [](auto request) { request.setFinish(); })}));
  return NextReply(*channel, location, nullptr, nullptr);
}

}  // namespace lockstep::client
