// The commands of a session that are collected to be sent together.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/client/link.h"
#include "runtime/client/register_names.h"
#include "runtime/client/session_recorder.h"
#include "runtime/control/batch.h"

namespace lockstep::client {

enum class CopyDirection { kToWorker, kFromWorker };

// Encodes each command once, in the buffer that will be sent, and numbers it. A command that comes
// after a pause is sent at once, unless others wait that came just before the pause: then it may
// wait with them. Commands in quick succession are collected.
//
// Threads: one at a time: its owner's lock is held. Ownership: all that it is given is borrowed.
class OpenBatch {
 public:
  OpenBatch(Link& link, RegisterNames& names, SessionRecorder& recorder);

  // The number of the next command.
  uint64_t next_command() const { return next_command_; }
  size_t size_bytes() const { return writer_.size_bytes(); }
  // When SendIfDue() first let a command wait that is here; older than the last that was sent if
  // none is.
  Deadline::Clock::time_point waits_since() const { return first_issued_; }

  // Appends the command that `fill` writes (it may be called twice), for which there is room in the
  // flow window. kInvalidArgument for one that is too large.
  template <typename Fill>
  Status Append(Fill&& fill) {
    return AppendBy([&](control::BatchWriter& writer) { return writer.Add(fill); });
  }
  // The same for what `add` adds to the writer it is given.
  template <typename Add>
  Status AppendBy(Add&& add) {
    const control::BatchWriter::Mark before = writer_.mark();
    LOCKSTEP_RETURN_IF_ERROR(add(writer_));
    if (writer_.size_bytes() > link_.facts().max_batch_bytes) [[unlikely]] {
      LOCKSTEP_RETURN_IF_ERROR(RemoveOversized(before));
      return AppendBy(add);
    }
    if (before.commands == 0) first_command_ = next_command_;
    before_last_ = before;
    ++next_command_;
    return OkStatus();
  }

  // Sends what is there, and the kill list. Never waits: what was appended had room.
  Status Send(RequestId request = {}, Rank answer_from = -1,
              std::chrono::milliseconds timeout = {});
  // Sends if the batch is full, or the last one was sent a while ago. `waits` becomes true if the
  // commands stay here, for a thread that sends them a moment later. If the controller is found to
  // be lost they stay, too: the next command gets the error.
  Status SendIfDue(bool* waits);
  // True if the next command does not look at the clock, since one of the same burst has.
  bool skips_clock() const { return commands_until_look_ > 0; }
  // Takes the last command back, if it has not been sent.
  void TakeBackLast();

  // What the client has copied itself; the controller is told with the next batch.
  void AddCopy(CopyDirection direction, uint64_t bytes, std::chrono::nanoseconds duration);

 private:
  // The link is not lost.
  Status SendNow(RequestId request, Rank answer_from, std::chrono::milliseconds timeout);

  struct Copies {
    uint64_t operations = 0;
    uint64_t bytes = 0;
    std::chrono::nanoseconds duration{0};
  };

  void AppendKills();
  // Takes the command behind `before` back, and makes room for it by sending those before it. An
  // error if it does not fit into a batch of its own.
  Status RemoveOversized(const control::BatchWriter::Mark& before);
  static void WriteCopies(const Copies& copies, wire::Copies::Builder builder);

  Link& link_;
  RegisterNames& names_;
  SessionRecorder& recorder_;
  control::BatchWriter writer_;
  control::BatchWriter::Mark before_last_;  // where the last command begins
  std::vector<uint64_t> kills_;             // scratch of AppendKills
  uint64_t next_command_;
  uint64_t first_command_;  // number of the first one in writer_
  Deadline::Clock::time_point last_send_;
  // The first command in writer_ that waits, and is waited for: not one that rides along.
  Deadline::Clock::time_point first_issued_;
  // When SendIfDue() last looked at the clock, for one in how many commands it does, and how many
  // more come before it does again.
  Deadline::Clock::time_point last_look_;
  uint32_t look_every_ = 1;
  uint32_t commands_until_look_ = 0;
  Copies copied_to_;    // since the last batch
  Copies copied_from_;  // the same
};

}  // namespace lockstep::client
