// Copies between the client's memory and worker-0's registers, and the endpoint that leads there.
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
#include "runtime/base/shape.h"
#include "runtime/base/shared_segment.h"
#include "runtime/base/status.h"
#include "runtime/client/bulk_transfer.h"
#include "runtime/client/dref.h"
#include "runtime/client/session_core.h"
#include "runtime/control/channel.h"
#include "runtime/control/keys/key.h"
#include "runtime/control/value.h"
#include "runtime/control/zmq/zmq_context.h"
#include "schemas/control.capnp.h"

namespace lockstep::client {

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
  // `controller_endpoint`: where the controller was found (see BulkRoutes).
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

    size_t size_bytes() const { return static_cast<size_t>(shape.NumElements()) * SizeOf(dtype); }
  };
  struct Answer {
    Location location;
    std::optional<std::string> bytes = {};  // all of the tensor's, if it has brought them
    bool is_newly_mapped = false;           // the memory
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
  std::byte* Map(const std::string& segment, uint64_t offset, size_t size_bytes);
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
  std::map<std::string, std::unique_ptr<SharedSegment>> segments_;
  // Registers with a copy by socket that broke off: they need other tickets.
  std::unordered_set<uint64_t> unfinished_;
  std::shared_ptr<control::ZmqContext> bulk_context_;
  std::unique_ptr<control::ClientChannel> bulk_channel_;
};

// Where worker-0 may be found: where it says, and, should that be an address of a network that this
// client is not in (a container's, a pod's), at its port of the host by which the client has found
// the controller, since a host that publishes one publishes the other. Endpoints without a host,
// and hosts that are the same, leave one route.
std::vector<std::string> BulkRoutes(const std::string& worker_endpoint,
                                    const std::string& controller_endpoint);

// The first of `routes` where a process listens: of those that answer at about the same time, the
// earlier in the list. They are tried at once, and each for `patience`; when none answers it is the
// first, for a connection goes on trying. A single route is not tried at all. Which process
// listens there is for the keys to tell.
std::string ChooseBulkRoute(const std::vector<std::string>& routes,
                            std::chrono::milliseconds patience);

}  // namespace lockstep::client
