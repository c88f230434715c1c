// Copies between the client's memory and worker-0's registers.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/prefault.h"
#include "runtime/base/shape.h"
#include "runtime/base/shared_segment.h"
#include "runtime/base/status.h"
#include "runtime/client/bulk_pace.h"
#include "runtime/client/bulk_transfer.h"
#include "runtime/client/dref.h"
#include "runtime/client/session_core.h"
#include "runtime/control/channel.h"
#include "runtime/control/keys/key.h"
#include "runtime/control/value.h"
#include "runtime/control/zmq/zmq_context.h"
#include "schemas/control.capnp.h"

namespace lockstep::client {

// A tensor of worker-0 that it has lent to the client.
struct BorrowedTensor {
  DType dtype = DType::kUInt8;
  Shape shape;
  std::byte* memory = nullptr;  // null: nothing was lent, or it cannot be mapped
  std::shared_ptr<const SharedSegment> segment;
  // As they were before it was asked.
  SessionCore::WorkerZero lender;
  Generation generation;
};

// Where this process can map worker-0's arena, a copy is one memory copy into or out of the
// register itself; and as long as no command was issued since the last answer, it needs no message
// either. Elsewhere the bytes travel over the bulk socket (bulk_transfer.h), but for those of small
// tensors that are read, which come with the answer to where they are: one round trip, like a sync.
//
// Threads: safe; copies of one session take turns.
class BulkCopier {
 public:
  // Does so only if `map_memory`.
  // `key` is shown at worker-0's socket if it asks for one (see wire::SessionRecord).
  // `controller_endpoint`: where the controller was found (see bulk_route.h).
  BulkCopier(SessionCore& core, std::shared_ptr<control::ZmqContext> context,
             const control::KeyPair& key, bool map_memory, std::string controller_endpoint)
      : core_(core),
        context_(std::move(context)),
        key_(key),
        map_memory_(map_memory),
        controller_endpoint_(std::move(controller_endpoint)) {}

  // `from.count` elements of `from.dtype` match the register's.
  Status Write(const DRef& to, ConstBuffer from);
  Status Read(Buffer to, const DRef& from);
  StatusOr<HostTensor> Read(const DRef& from);

  bool maps_memory() const { return map_memory_; }
  // Runs `ask`, which has worker-0 lend memory, and returns what it has answered. The errors of
  // `ask`, and the reason that worker-0 gives for lending none.
  template <typename Ask>
  StatusOr<BorrowedTensor> Borrow(Ask ask) {
    std::lock_guard lock(mutex_);
    // Before it asks: who has replaced it by the time of the answer has lent nothing.
    BorrowedTensor lent;
    lent.lender = core_.IdentifyWorkerZero();
    lent.generation = core_.generation();
    LOCKSTEP_ASSIGN_OR_RETURN(const control::Frame answer, ask());
    LOCKSTEP_RETURN_IF_ERROR(ReadLent(answer, &lent));
    return lent;
  }

  // Runs `store`, which gives the register another value: no copy is under way meanwhile, and none
  // takes the register to be where it was.
  template <typename Store>
  Status Replace(const DRef& ref, Store store) {
    std::lock_guard lock(mutex_);
    locations_.erase(ref.id().index);
    return store();
  }
  // Runs `close`, which frees all registers: after the copies that are under way.
  template <typename Close>
  Status Finish(Close close) {
    std::lock_guard lock(mutex_);
    return close();
  }

 private:
  struct Location {
    DType dtype = DType::kUInt8;
    Shape shape;
    std::byte* memory = nullptr;  // null: only the bulk socket reaches it
    uint64_t ticket = 0;
    RegisterId id;
    // In which it was asked for: a failure may free a register, so a reset ends what is known.
    Generation generation;
    uint64_t plan_executions = 0;  // before it was asked for

    size_t size_bytes() const { return static_cast<size_t>(shape.NumElements()) * SizeOf(dtype); }
  };
  struct Mapped {
    std::byte* memory = nullptr;
    std::shared_ptr<SharedSegment> segment;
  };
  struct Answer {
    Location location;
    std::shared_ptr<SharedSegment> segment = {};  // that its memory lies in
    std::optional<std::string> bytes = {};        // all of the tensor's, if it has brought them
    bool is_newly_mapped = false;                 // the memory
  };
  // Where a register is, and since when that is known. Until the next is found.
  struct Found {
    const Location& location;
    Deadline::Clock::time_point at;
    const std::string* bytes = nullptr;  // all of the tensor's; null: they have to be fetched
  };
  enum class Use { kWrite, kRead };

  // Waits for the commands before, unless it is known that there are none.
  StatusOr<Found> Find(const DRef& ref, Use use);
  // What is known without asking; null: nothing.
  const Location* FindKnown(RegisterId id, Use use, Deadline::Clock::time_point now);
  StatusOr<Answer> Ask(RegisterId id, Use use, bool renew);
  wire::BytesWish WishFor(Use use) const;
  Status ReadAnswer(wire::TensorLocation::Reader reader, Answer* answer);
  // Copies what was found; `to` is as large.
  Status Fill(void* to, const DRef& from, const Found& found);
  Status ReadLent(const control::Frame& answer, BorrowedTensor* lent);
  Mapped Map(const std::string& segment, uint64_t offset, size_t size_bytes);
  Status CheckMatches(const Location& location, ConstBuffer buffer) const;
  // Over the bulk socket; over another connection to it when nothing is answered on this one.
  Status BySocket(const DRef& ref, Location location, BulkTransfer transfer);
  StatusOr<control::ClientChannel*> BulkChannel();
  // Forgets where things are if worker-0, which is `now`, is another one than before; true if so.
  bool NoticeReplacement(const SessionCore::WorkerZero& now);
  SessionCore& core_;
  const std::shared_ptr<control::ZmqContext> context_;
  const control::KeyPair key_;
  const bool map_memory_;
  const std::string controller_endpoint_;
  std::mutex mutex_;
  SessionCore::WorkerZero worker_zero_;  // whose memory is known below
  // By register index: a name used again replaces the old entry.
  std::unordered_map<uint32_t, Location> locations_;
  Answer answer_;  // the last
  // Shared with the tensors that lie in them. Null: it cannot be mapped.
  std::map<std::string, std::shared_ptr<SharedSegment>> segments_;
  Prefault prefault_;
  // Registers with a copy by socket that broke off: they need other tickets.
  std::unordered_set<uint64_t> unfinished_;
  std::shared_ptr<control::ZmqContext> bulk_context_;
  std::unique_ptr<control::ClientChannel> bulk_channel_;
  BulkPace bulk_pace_;
};

}  // namespace lockstep::client
