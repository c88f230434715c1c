#include "runtime/client/open_batch.h"

#include <algorithm>
#include <chrono>

#include "runtime/control/channel.h"
#include "runtime/control/message_codec.h"
#include "schemas/session.capnp.h"

namespace lockstep::client {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// A batch is sent when it has grown to this, ...
constexpr size_t kBatchBytes = size_t{48} << 10;
// ... or when this much time has passed since the last one.
constexpr microseconds kPause{100};

// To look at the clock takes as long as to encode a call. So when commands come in such quick
// succession that kMostPerLook of them take a small part of a pause, it is looked at for one in so
// many. A caller that slows down then sends a little later, or the keeper does it.
constexpr uint32_t kMostPerLook = 8;
constexpr microseconds kQuickLooks = kPause / 16;

}  // namespace

OpenBatch::OpenBatch(Link& link, RegisterNames& names, SessionRecorder& recorder)
    : link_(link),
      names_(names),
      recorder_(recorder),
      next_command_(link.start().next_command),
      first_command_(next_command_) {}

Status OpenBatch::SendIfDue(bool* waits) {
  const bool is_full = writer_.size_bytes() >= kBatchBytes;
  if (!is_full && commands_until_look_ > 0) {
    --commands_until_look_;
    *waits = true;
    return OkStatus();
  }
  const auto now = Deadline::Clock::now();
  const bool is_due = is_full || now - last_send_ >= kPause;
  if (is_due && link_.Lost().ok()) return SendNow({}, -1, {});
  *waits = true;
  if (first_issued_ <= last_send_) first_issued_ = now;
  look_every_ = now - last_look_ <= kQuickLooks ? std::min(2 * look_every_, kMostPerLook) : 1;
  commands_until_look_ = is_due ? 0 : look_every_ - 1;
  last_look_ = now;
  return OkStatus();
}

void OpenBatch::TakeBackLast() {
  if (writer_.commands() <= before_last_.commands) return;
  writer_.Rollback(before_last_);
  --next_command_;
}

void OpenBatch::AddCopy(CopyDirection direction, uint64_t bytes,
                        std::chrono::nanoseconds duration) {
  Copies& copies = direction == CopyDirection::kToWorker ? copied_to_ : copied_from_;
  ++copies.operations;
  copies.bytes += bytes;
  copies.duration += duration;
}

void OpenBatch::AppendKills() {
  // Names that do not fit stay for a later batch.
  constexpr uint64_t kFramingBytes = 256;
  const uint64_t used = writer_.size_bytes() + kFramingBytes;
  if (used >= link_.facts().max_batch_bytes) return;
  kills_.clear();
  names_.TakeKills(&kills_, (link_.facts().max_batch_bytes - used) / sizeof(uint64_t));
  if (kills_.empty()) return;
  (void)Append([&](wire::Command::Builder command) {
    auto registers = command.initRelease().initRegisters(static_cast<unsigned>(kills_.size()));
    for (unsigned i = 0; i < registers.size(); ++i) registers.set(i, kills_[i]);
  });
}

Status OpenBatch::RemoveOversized(const control::BatchWriter::Mark& before) {
  const size_t size_bytes = writer_.size_bytes() - before.used_words * sizeof(uint64_t);
  writer_.Rollback(before);
  if (size_bytes > link_.facts().max_batch_bytes) {
    return InvalidArgument("the command has ", size_bytes, " bytes, but the controller takes ",
                           link_.facts().max_batch_bytes,
                           " (max_batch_bytes); move large data with CopyToWorker0 and a "
                           "collective");
  }
  return Send();
}

void OpenBatch::WriteCopies(const Copies& copies, wire::Copies::Builder builder) {
  builder.setOperations(copies.operations);
  builder.setBytes(copies.bytes);
  builder.setNanos(static_cast<uint64_t>(copies.duration.count()));
}

Status OpenBatch::Send(RequestId request, Rank answer_from, milliseconds timeout) {
  commands_until_look_ = 0;
  // A restarted controller would drop it, and it would count as lost.
  const Status lost = link_.Lost();
  if (lost.ok()) return SendNow(request, answer_from, timeout);
  return writer_.empty() ? OkStatus() : lost;
}

Status OpenBatch::SendNow(RequestId request, Rank answer_from, milliseconds timeout) {
  // For the next command: since when it waits, and whether the controller is silent.
  commands_until_look_ = 0;
  AppendKills();
  if (writer_.empty()) return OkStatus();
  link_.SetNextCommand(first_command_ + writer_.commands());
  const auto now = Deadline::Clock::now();
  // Not set by what is sent at once: then it is older than the last send.
  const auto waited =
      first_issued_ > last_send_ ? now - first_issued_ : Deadline::Clock::duration::zero();
  const control::Frame header =
      control::EncodeMessage<wire::ClientMessage>([&](wire::ClientMessage::Builder message) {
        auto batch = message.initBatch();
        batch.setSession(link_.facts().id.value);
        batch.setGeneration(link_.sent_generation().value);
        batch.setFirstCommand(first_command_);
        batch.setCommandCount(writer_.commands());
        batch.setRegisterGenerations(names_.generations());
        batch.setRequest(request.value);
        batch.setAnswerFrom(answer_from);
        batch.setTimeoutMillis(static_cast<uint64_t>(timeout.count()));
        batch.setWaitedNanos(static_cast<uint64_t>(std::chrono::nanoseconds(waited).count()));
        if (copied_to_.operations > 0) WriteCopies(copied_to_, batch.initCopiedTo());
        if (copied_from_.operations > 0) WriteCopies(copied_from_, batch.initCopiedFrom());
      });
  copied_to_ = copied_from_ = Copies();
  const size_t bytes = writer_.size_bytes();
  const uint32_t commands = writer_.commands();
  link_.flow().Sent(control::FlowCost(bytes));
  last_send_ = now;
  const Status sent = link_.Send({header, writer_.Take()});
  if (recorder_.is_on()) recorder_.RecordBatch(now, waited, first_command_, commands, bytes);
  return sent;
}

}  // namespace lockstep::client
