// The bytes of one tensor on their way between this process and worker-0's bulk socket
// (schemas/bulk.capnp).
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/client/bulk_pace.h"
#include "runtime/control/channel.h"
#include "schemas/bulk.capnp.h"

namespace lockstep::client {

// Memory that is lent to messages. Its end waits until the last of them has let go of it.
//
// Threads: Lend() one at a time; frames are dropped on any.
class LentMemory {
 public:
  LentMemory();
  LentMemory(const LentMemory&) = delete;
  LentMemory& operator=(const LentMemory&) = delete;
  // The channels that messages were sent through last must be sending, or closed.
  ~LentMemory();

  control::Frame Lend(const std::byte* data, size_t size_bytes) const {
    return {borrowers_, data, size_bytes};
  }

 private:
  struct Ledger {
    std::mutex mutex;
    std::condition_variable changed;
    bool returned = false;
  };

  const std::shared_ptr<Ledger> ledger_;
  std::shared_ptr<void> borrowers_;
};

// A tensor is moved in chunks, one or several of them with a checksum in one request, and several
// requests on their way at a time. Chunks that are damaged are moved again; so are those without an
// answer when a connection is given up: what has arrived stays.
//
// Threads: one at a time. The memory is borrowed until this object's end.
class BulkTransfer {
 public:
  static BulkTransfer Write(const void* from, size_t size_bytes) {
    // Never written to.
    return BulkTransfer(Direction::kWrite, const_cast<void*>(from), size_bytes);
  }
  static BulkTransfer Read(void* to, size_t size_bytes) {
    return BulkTransfer(Direction::kRead, to, size_bytes);
  }

  // What a transfer asks of its session.
  struct Surroundings {
    // An error ends the transfer: the session's. Asked again and again while it waits.
    std::function<Status()> look;
    // How much may be under way.
    BulkPace& pace;
    // Without any answer for so long, the transfer fails.
    std::chrono::milliseconds timeout;
  };

  // Moves what is left, over a connection on which nothing was asked before that is still awaited.
  // True: all has arrived. False: nothing is answered here any more; to go on with another
  // connection and another ticket (under the old one, what is still on its way must not be taken
  // in). Errors:
  //   kDeadlineExceeded  nothing was answered for the whole time-out, over all connections
  //   kDataLoss          chunks arrive damaged again and again
  //   kInternal          worker-0 answers nonsense
  //   others             the worker's: the register was freed, say; or the session's
  StatusOr<bool> Continue(control::ClientChannel& channel, uint64_t ticket,
                          const Surroundings& surroundings);

 private:
  enum class Direction { kWrite, kRead };
  enum class Chunk : uint8_t { kToDo, kUnderWay, kDone };

  // Chunks that are asked for together.
  struct Request {
    size_t first = 0;
    size_t chunks = 0;
    BulkPace::Clock::time_point sent = {};
  };

  BulkTransfer(Direction direction, void* memory, size_t size_bytes);
  // Asks for chunks until enough of them are under way.
  Status Ask(control::ClientChannel& channel, uint64_t ticket, const BulkPace& pace);
  // As many that are still to do, from `first` on, as make up `most_bytes`.
  Request Next(size_t first, size_t most_bytes, BulkPace::Clock::time_point now) const;
  Status Send(const Request& request, control::ClientChannel& channel, uint64_t ticket);
  Status Take(const control::Message& reply, uint64_t ticket, BulkPace& pace);
  Status TakeAnswer(wire::BulkReply::Reader reply, const control::Message& message,
                    const Request& request);
  // Damaged on its way.
  Status AskAgain(const Request& request);
  // Nothing is answered: all that was under way has to be asked for again.
  void GiveUpConnection();
  void Mark(const Request& request, Chunk chunk);
  size_t BytesOf(const Request& request) const;

  const Direction direction_;
  std::byte* const memory_;
  const size_t size_bytes_;
  const size_t chunk_bytes_;
  std::vector<Chunk> chunks_;
  size_t first_to_do_ = 0;               // no chunk before it is to do
  std::map<size_t, Request> under_way_;  // by the first chunk
  size_t under_way_bytes_ = 0;
  bool is_answered_ = false;  // any request, over this connection
  size_t done_ = 0;
  int damaged_ = 0;
  // Silence that is longer means that the connection is lost.
  std::chrono::milliseconds patience_;
  Deadline::Clock::time_point last_answer_;
  const std::unique_ptr<LentMemory> lent_;
};

}  // namespace lockstep::client
