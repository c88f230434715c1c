#include "runtime/client/bulk_copy.h"

#include <algorithm>
#include <utility>

#include "runtime/base/bulk_memory.h"
#include "runtime/base/deadline.h"
#include "runtime/client/bulk_route.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "runtime/control/zmq/zmq_channel.h"

namespace lockstep::client {

namespace {

// For each way to worker-0, and the server that knows its name.
constexpr std::chrono::milliseconds kWayPatience{2000};

}  // namespace

Status BulkCopier::Write(const DRef& to, ConstBuffer from) {
  std::lock_guard lock(mutex_);
  LOCKSTEP_ASSIGN_OR_RETURN(const Found found, Find(to, Use::kWrite));
  const Location& location = found.location;
  LOCKSTEP_RETURN_IF_ERROR(CheckMatches(location, from));
  if (from.count == 0) return OkStatus();
  if (location.memory == nullptr) {
    return BySocket(to, location, BulkTransfer::Write(from.data, from.size_bytes()));
  }
  FastCopy(location.memory, from.data, from.size_bytes());
  core_.NoteCopy(CopyDirection::kToWorker, from.size_bytes(), Deadline::Clock::now() - found.at);
  return OkStatus();
}

Status BulkCopier::Read(Buffer to, const DRef& from) {
  std::lock_guard lock(mutex_);
  LOCKSTEP_ASSIGN_OR_RETURN(const Found found, Find(from, Use::kRead));
  LOCKSTEP_RETURN_IF_ERROR(CheckMatches(found.location, to));
  return Fill(to.data, from, found);
}

StatusOr<HostTensor> BulkCopier::Read(const DRef& from) {
  std::lock_guard lock(mutex_);
  LOCKSTEP_ASSIGN_OR_RETURN(const Found found, Find(from, Use::kRead));
  HostTensor tensor{found.location.dtype, found.location.shape, {}};
  tensor.data.resize(found.location.size_bytes());
  LOCKSTEP_RETURN_IF_ERROR(Fill(tensor.data.data(), from, found));
  return tensor;
}

Status BulkCopier::Fill(void* to, const DRef& from, const Found& found) {
  const Location& location = found.location;
  const size_t size_bytes = location.size_bytes();
  if (size_bytes == 0) return OkStatus();
  const void* const bytes =
      found.bytes != nullptr ? found.bytes->data() : static_cast<const void*>(location.memory);
  if (bytes == nullptr) return BySocket(from, location, BulkTransfer::Read(to, size_bytes));
  FastCopy(to, bytes, size_bytes);
  core_.NoteCopy(CopyDirection::kFromWorker, size_bytes, Deadline::Clock::now() - found.at);
  return OkStatus();
}

Status BulkCopier::CheckMatches(const Location& location, ConstBuffer buffer) const {
  if (buffer.dtype == location.dtype &&
      buffer.count == static_cast<size_t>(location.shape.NumElements())) {
    return OkStatus();
  }
  return InvalidArgument("register ", location.id, " holds ", location.dtype, " ", location.shape,
                         " (", location.shape.NumElements(), " elements), the buffer has ",
                         buffer.count, " elements of ", buffer.dtype);
}

const BulkCopier::Location* BulkCopier::FindKnown(RegisterId id, Use use,
                                                  Deadline::Clock::time_point now) {
  const auto known = locations_.find(id.index);
  if (known == locations_.end() || known->second.id != id) return nullptr;
  const Location& location = known->second;
  // Asked for anew, it comes with the answer, instead of with another one.
  const bool comes_with_answer = use == Use::kRead && location.memory == nullptr &&
                                 location.size_bytes() <= wire::MOST_ANSWER_BYTES;
  if (comes_with_answer || unfinished_.count(id.Packed()) > 0) return nullptr;
  // In one generation a register keeps its memory for life, unless it is a plan's output, so a
  // known place stays true until a plan is executed; but commands that were issued and not yet
  // executed may still use what is there.
  const auto idle = core_.FindIdleWorkerZero(location.generation, now);
  if (!idle.has_value() || NoticeReplacement(*idle)) return nullptr;
  return location.plan_executions == core_.plan_executions() ? &location : nullptr;
}

StatusOr<BulkCopier::Found> BulkCopier::Find(const DRef& ref, Use use) {
  LOCKSTEP_RETURN_IF_ERROR(core_.CheckOwn(ref, "the register"));
  const RegisterId id = ref.id();
  const auto now = Deadline::Clock::now();
  if (const Location* const known = FindKnown(id, use, now)) return Found{*known, now};
  const bool renew = unfinished_.count(id.Packed()) > 0;
  LOCKSTEP_ASSIGN_OR_RETURN(answer_, Ask(id, use, renew));
  const std::string* const bytes = answer_.bytes.has_value() ? &*answer_.bytes : nullptr;
  // Worker-0 keeps a lost client's tensors if it sees that the client maps them. Had this session
  // been lost before it could, others would have the memory now; then it does not answer again.
  // Only the next copy has to ask, where this one has its bytes.
  if (answer_.is_newly_mapped && bytes == nullptr) return Find(ref, use);
  if (answer_.segment != nullptr && bytes == nullptr) {
    prefault_.Now(answer_.segment, answer_.location.memory, answer_.location.size_bytes());
  }
  if (!answer_.is_newly_mapped) {
    locations_[id.index] = answer_.location;
    unfinished_.erase(id.Packed());  // not before: the old ticket is good for nothing any more
  }
  return Found{answer_.location, Deadline::Clock::now(), bytes};
}

StatusOr<BulkCopier::Answer> BulkCopier::Ask(RegisterId id, Use use, bool renew) {
  Answer answer;
  answer.location.id = id;
  // Before it asks: a reset that comes meanwhile makes the answer out of date.
  answer.location.generation = core_.generation();
  answer.location.plan_executions = core_.plan_executions();
  LOCKSTEP_ASSIGN_OR_RETURN(const control::Frame body,
                            core_.Ask(0, [&](wire::Command::Builder command) {
                              command.setOnlyRank(0);
                              auto locate = command.initLocate();
                              locate.setRegister(id.Packed());
                              locate.setRenew(renew);
                              locate.setBytes(WishFor(use));
                            }));
  // Before its memory is mapped: what is known of another worker-0 may have the same names.
  NoticeReplacement(core_.IdentifyWorkerZero());
  const size_t segments_before = segments_.size();
  LOCKSTEP_RETURN_IF_ERROR(control::DecodeMessage<wire::TensorLocation>(
      body, [&](wire::TensorLocation::Reader reader) { return ReadAnswer(reader, &answer); }));
  answer.is_newly_mapped = answer.location.memory != nullptr && segments_.size() > segments_before;
  return answer;
}

wire::BytesWish BulkCopier::WishFor(Use use) const {
  if (use == Use::kWrite) return wire::BytesWish::NEVER;
  const bool has_mapped = std::any_of(segments_.begin(), segments_.end(), [](const auto& segment) {
    return segment.second != nullptr;
  });
  return has_mapped ? wire::BytesWish::UNLESS_SHARED : wire::BytesWish::ALWAYS;
}

Status BulkCopier::ReadAnswer(wire::TensorLocation::Reader reader, Answer* answer) {
  Location& location = answer->location;
  LOCKSTEP_ASSIGN_OR_RETURN(location.dtype, control::FromWire(reader.getDtype()));
  LOCKSTEP_ASSIGN_OR_RETURN(location.shape,
                            control::ReadShape(reader.getShape(), SizeOf(location.dtype)));
  location.ticket = reader.getTicket();
  Mapped mapped =
      Map(control::ToString(reader.getSegment()), reader.getOffset(), location.size_bytes());
  location.memory = mapped.memory;
  answer->segment = std::move(mapped.segment);
  if (!reader.hasBytes()) return OkStatus();
  const capnp::Data::Reader bytes = reader.getBytes();
  if (bytes.size() != location.size_bytes()) {
    return Internal("worker-0 answers with ", bytes.size(), " bytes of a tensor ", location.dtype,
                    " ", location.shape);
  }
  answer->bytes.emplace(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
  return OkStatus();
}

Status BulkCopier::ReadLent(const control::Frame& answer, BorrowedTensor* lent) {
  NoticeReplacement(core_.IdentifyWorkerZero());
  const size_t segments_before = segments_.size();
  LOCKSTEP_RETURN_IF_ERROR(control::DecodeMessage<wire::TensorLocation>(
      answer, [&](wire::TensorLocation::Reader reader) -> Status {
        if (reader.hasRefusal()) return control::ReadError(reader.getRefusal()).ToStatus();
        LOCKSTEP_ASSIGN_OR_RETURN(lent->dtype, control::FromWire(reader.getDtype()));
        LOCKSTEP_ASSIGN_OR_RETURN(lent->shape,
                                  control::ReadShape(reader.getShape(), SizeOf(lent->dtype)));
        const size_t size_bytes =
            static_cast<size_t>(lent->shape.NumElements()) * SizeOf(lent->dtype);
        Mapped mapped = Map(control::ToString(reader.getSegment()), reader.getOffset(), size_bytes);
        lent->memory = mapped.memory;
        lent->segment = std::move(mapped.segment);
        return OkStatus();
      }));
  if (lent->memory == nullptr) return OkStatus();
  // As in Find(): had the session been lost before the memory was mapped, others would have it now.
  if (segments_.size() > segments_before) {
    const StatusOr<control::Frame> still_there = core_.Ask(0, [](wire::Command::Builder command) {
      command.setOnlyRank(0);
      command.setSync();
    });
    LOCKSTEP_RETURN_IF_ERROR(still_there.status());
  }
  prefault_.InBackground(lent->segment, lent->memory,
                         static_cast<size_t>(lent->shape.NumElements()) * SizeOf(lent->dtype));
  return OkStatus();
}

bool BulkCopier::NoticeReplacement(const SessionCore::WorkerZero& now) {
  if (std::exchange(worker_zero_, now) == now) return false;
  locations_.clear();
  segments_.clear();
  prefault_.Stop();
  bulk_channel_.reset();
  return true;
}

BulkCopier::Mapped BulkCopier::Map(const std::string& segment, uint64_t offset, size_t size_bytes) {
  if (!map_memory_ || segment.empty()) return {};
  auto found = segments_.find(segment);
  if (found == segments_.end()) {
    // Not found: worker-0 is on another host. Another user's: it could not see that we map it, and
    // would not keep what we may be writing to. Either way the bulk socket works.
    auto opened = SharedSegment::Open(segment);
    const bool usable = opened.ok() && (*opened)->IsOurs();
    found = segments_.emplace(segment, usable ? std::move(*opened) : nullptr).first;
  }
  const auto& mapped = found->second;
  if (mapped == nullptr || offset > mapped->capacity_bytes() ||
      size_bytes > mapped->capacity_bytes() - offset) {
    return {};
  }
  return {mapped->data() + offset, mapped};
}

StatusOr<control::ClientChannel*> BulkCopier::BulkChannel() {
  if (bulk_channel_ == nullptr) {
    bulk_pace_ = BulkPace();  // of another wire, perhaps
    const Peer worker = core_.WorkerZeroPeer();
    if (worker.bulk_endpoint.empty()) return Unavailable("worker-0 takes no bulk copies");
    const std::string endpoint =
        ChooseBulkRoute(BulkRoutes(worker.bulk_endpoint, controller_endpoint_), kWayPatience);
    // What has not gone out when it is closed is of no use any more.
    control::ZmqOptions options{.linger = std::chrono::milliseconds(0), .low_priority = true};
    options.keeps_unsent = false;  // what is not answered is asked for again
    if (!worker.bulk_key.empty()) {
      LOCKSTEP_ASSIGN_OR_RETURN(const control::PublicKey listener,
                                control::ParsePublicKey(worker.bulk_key));
      options.credentials = [credentials = control::Credentials{key_, {listener}}] {
        return credentials;
      };
    }
    if (bulk_context_ == nullptr) bulk_context_ = control::BulkContext(context_, endpoint);
    LOCKSTEP_ASSIGN_OR_RETURN(bulk_channel_, control::ZmqConnect(bulk_context_, endpoint, options));
  }
  return bulk_channel_.get();
}

Status BulkCopier::BySocket(const DRef& ref, Location location, BulkTransfer transfer) {
  const BulkTransfer::Surroundings surroundings = {[this] { return core_.Look(); }, bulk_pace_,
                                                   core_.timeout()};
  const auto began = Deadline::Clock::now();
  while (true) {
    LOCKSTEP_ASSIGN_OR_RETURN(control::ClientChannel* const channel, BulkChannel());
    const StatusOr<bool> over = transfer.Continue(*channel, location.ticket, surroundings);
    if (!over.ok() || *over) {
      core_.NoteCopyBySocket(location.size_bytes(), began, over.status());
    }
    if (over.ok() && *over) return OkStatus();
    // Requests and answers may still be on their way: the answers over a connection that is
    // not read any more, the requests under a ticket that will not be valid any more.
    bulk_channel_.reset();
    unfinished_.insert(location.id.Packed());
    LOCKSTEP_RETURN_IF_ERROR(over.status());
    LOCKSTEP_ASSIGN_OR_RETURN(const Found found, Find(ref, Use::kWrite));
    location = found.location;
  }
}

}  // namespace lockstep::client
