// One communicator of NCCL's, held so that no call of it can hang its caller.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/collective/device.h"
#include "runtime/collective/nccl/library.h"
#include "runtime/collective/nccl/memory.h"
#include "runtime/cuda/gpu.h"

namespace lockstep::collective::nccl {

// Ends a wait for the GPU when `cancelled` is set, which may be null and outlives the wait.
inline WaitLimit UntilCancelled(Deadline deadline, const std::atomic<bool>* cancelled) {
  return {deadline, [cancelled]() -> Status {
            return cancelled != nullptr && *cancelled ? Aborted("cancelled") : OkStatus();
          }};
}

// Every call is made in NCCL's non-blocking mode: what it begins goes on after it returned, and is
// waited for by asking, until a deadline, or an abort. Its end, in order or by an abort, waits for
// the GPU, whose stream may be stuck in any kernel: it is made on a thread of its own, for which
// no caller waits (endings.h).
//
// Threads: Abort() and is_aborted() from any; the rest one at a time.
class Handle final : public DeviceConnection {
 public:
  // The rank `rank` of `size`, which all give the same `id`, and come before `deadline`.
  // `cancelled` may be null. `held` is kept until NCCL is through with the communicator, however it
  // ends. Errors: kDeadlineExceeded, kAborted; kUnavailable or kInternal with
  // NCCL's reason.
  static StatusOr<std::unique_ptr<Handle>> Init(const Library& library,
                                                std::shared_ptr<cuda::Gpu> gpu,
                                                const ncclUniqueId& id, int rank, int size,
                                                Deadline deadline,
                                                const std::atomic<bool>* cancelled,
                                                std::shared_ptr<void> held = nullptr);
  // False once a SplitAll() was given up, or the communicator aborted. Another one's ranks may see
  // it differently: they have to agree before they split.
  bool CanSplit();
  // Another one among all ranks of this one, which all call it.
  StatusOr<std::unique_ptr<Handle>> SplitAll(int rank, Deadline deadline,
                                             const std::atomic<bool>* cancelled,
                                             std::shared_ptr<void> held = nullptr);

  // From now on what lies there needs no copy on its way. Given back with the communicator. A
  // communicator that cannot is as good as before, and the log says so.
  void Register(std::shared_ptr<RegisteredMemory> memory, Deadline deadline);

  ~Handle() override;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  // Makes calls that put work into a stream, and returns when all of it is in. After an error the
  // communicator is of no use any more.
  Status Run(const char* what, Deadline deadline, const std::atomic<bool>* cancelled,
             const std::function<ncclResult_t(const Library&, ncclComm_t)>& calls);
  // The GPU is through with all that was put in when it comes to `end`.
  void NoteEnd(std::shared_ptr<cuda::Event> end) { last_ = std::move(end); }

  // The other ranks do not end theirs together with this one.
  void EndAlone() { in_order_ = false; }

  Status Health() override;
  // Returns at once, also while another thread is in NCCL: that one ends it when it comes back.
  void Abort(const Status& cause) override;
  bool is_aborted() const override { return aborted_; }

 private:
  // Where NCCL writes the communicator that it makes, at the end of making it: that may be long
  // after we have given up.
  using Slot = std::shared_ptr<ncclComm_t>;
  struct Unfinished {
    Slot slot;
    std::shared_ptr<void> held;
  };
  // What is known to NCCL, and has to outlive what NCCL does.
  struct Native;
  // Around calls with the communicator: null if it was aborted.
  class Use;

  Handle(const Library& library, std::shared_ptr<cuda::Gpu> gpu, std::shared_ptr<void> held)
      : library_(library), gpu_(std::move(gpu)), held_(std::move(held)) {}
  // Until NCCL is through with what it was asked for.
  Status AwaitNccl(const char* what, Deadline deadline, const std::atomic<bool>* cancelled);
  // Ends it on a thread of its own: in order if all ranks do so within a moment, else by an abort.
  // With mutex_ held, while no call uses it, or by the destructor.
  void EndLater(bool in_order);
  Status cause();

  const Library& library_;
  const std::shared_ptr<cuda::Gpu> gpu_;
  const std::shared_ptr<void> held_;
  std::shared_ptr<RegisteredMemory> memory_;
  Slot slot_;
  void* registration_ = nullptr;
  std::vector<Unfinished> unfinished_;  // splits that were given up
  std::shared_ptr<cuda::Event> last_;   // null: nothing was put in
  // Connected, and no call has failed: the ranks may close together.
  std::atomic<bool> in_order_{false};
  std::atomic<bool> aborted_{false};
  std::mutex mutex_;           // guards what follows; never held while NCCL is called
  ncclComm_t comm_ = nullptr;  // null: it was ended
  bool is_used_ = false;
  Status cause_;
};

}  // namespace lockstep::collective::nccl
