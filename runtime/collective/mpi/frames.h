// Frames between the processes of an MPI job, through buffers of its own.
//
// MPI never takes a send back, nor a receive that has begun: memory that it was given may be
// touched until the other side has done its part. So it is given none but that of this object. And
// as making a communicator of MPI waits for all its members without an end, there is one of them;
// each that talks here has a port of its own instead, whose number no other has had before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/collective/mpi/shim.h"

namespace lockstep::collective::mpi {

// What a frame begins with.
struct Frame {
  enum class Kind : uint32_t {
    kData,   // a piece of message `tag`, from `offset_bytes` on
    kReady,  // the other side awaits message `tag`
    kLeave,  // nothing more comes; `tag` is a StatusCode, and the text its message
    kGone,   // said by Frames: there is no port `tag` (any more)
  };
  uint64_t port = 0;        // where it goes to
  uint64_t reply_port = 0;  // of who sends it
  Kind kind = Kind::kData;
  uint32_t from = 0;  // who sends it, by a number that the two have agreed on
  uint64_t tag = 0;
  uint64_t offset_bytes = 0;
};

// Threads: all of it with mutex() held.
class Frames {
 public:
  static constexpr size_t kPayloadBytes = size_t{128} << 10;

  // Called by Progress(). What one process has sent comes in that order.
  class Receiver {
   public:
    virtual ~Receiver() = default;
    // From `process` of the job. `payload` is borrowed until it returns.
    virtual void TakeFrame(int process, const Frame& frame,
                           absl::Span<const std::byte> payload) = 0;
  };

  explicit Frames(const lockstep_mpi& mpi);
  // After End(), or never: MPI uses its memory.
  ~Frames() = default;

  std::mutex& mutex() { return mutex_; }
  // OK, or why nothing is sent and received any more.
  const Status& failure() const { return failure_; }

  // A number that this process has never used; frames to it go to `receiver`, which is borrowed
  // until Close().
  uint64_t Open(Receiver& receiver);
  void Close(uint64_t port);

  // Copies the payload, of up to kPayloadBytes, and sends it. `*on_its_way` (may be null) counts
  // the frames that the other side has not taken.
  void SendTo(int process, const Frame& frame, absl::Span<const std::byte> payload,
              std::shared_ptr<int> on_its_way);
  // False: so much is on its way that long payloads should wait.
  bool HasRoom() const;
  bool IsQuiet() const { return sends_.empty(); }

  // Takes what has come, and looks what has been taken. False if there was nothing.
  bool Progress();

  // Receives nothing any more.
  void End();

 private:
  struct Send {
    std::vector<std::byte> buffer;
    lockstep_mpi_request request = {};
    std::shared_ptr<int> on_its_way;
  };
  struct Receive {
    std::vector<std::byte> buffer;
    lockstep_mpi_request request = {};
  };

  void Post(Receive& receive);
  bool TakeArrived();
  bool ForgetTaken();
  void Deliver(int process, absl::Span<const std::byte> bytes);
  // False: MPI has failed, for the first time or before.
  bool Check(int code);

  const lockstep_mpi& mpi_;
  std::mutex mutex_;
  Status failure_;
  std::unordered_map<uint64_t, Receiver*> ports_;
  uint64_t last_port_ = 0;
  std::list<Send> sends_;
  std::list<Send> spare_;  // with long buffers, for later
  size_t long_sends_ = 0;
  std::vector<Receive> receives_;  // a ring
  size_t next_receive_ = 0;        // the oldest one
};

}  // namespace lockstep::collective::mpi
