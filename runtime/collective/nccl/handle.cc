#include "runtime/collective/nccl/handle.h"

#include <chrono>
#include <utility>

#include "runtime/base/backoff.h"
#include "runtime/base/log.h"
#include "runtime/collective/nccl/endings.h"
#include "runtime/cuda/await.h"

namespace lockstep::collective::nccl {
namespace {

using std::chrono::microseconds;

// As long as others may be behind when one closes: what they have yet to get is not lost. No
// caller waits for it.
constexpr std::chrono::seconds kClosingTime{30};
constexpr Backoff::Pace kPace{microseconds(50), microseconds(20), microseconds(1000)};

bool IsFine(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

ncclConfig_t NonBlocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

}  // namespace

struct Handle::Native {
  const Library& library;
  std::shared_ptr<cuda::Gpu> gpu;
  ncclComm_t comm;
  Slot slot;
  std::vector<Unfinished> unfinished;
  std::shared_ptr<RegisteredMemory> memory;
  void* registration;
  std::shared_ptr<cuda::Event> last;
  std::shared_ptr<void> held;

  // False: not all ranks did so in time, or it would not be right any more.
  bool Close() {
    const Deadline deadline = Deadline::After(kClosingTime);
    if (registration != nullptr) {
      // NCCL does not look whether the GPU is through with the memory.
      if (last != nullptr && !cuda::Await(*last, {deadline}, "a collective").ok()) return false;
      if (!IsFine(library.deregister_memory(comm, registration))) return false;
    }
    if (!IsFine(library.ncclCommFinalize(comm))) return false;
    Backoff backoff(kPace);
    ncclResult_t state = ncclInProgress;
    while (IsFine(library.ncclCommGetAsyncError(comm, &state)) && state == ncclInProgress &&
           !deadline.Expired()) {
      backoff.Pause();
    }
    if (state != ncclSuccess) return false;
    (void)library.ncclCommDestroy(comm);
    return true;
  }

  void Abort() {
    // It ends what the communicator is doing, splits too, and writes nothing after it.
    const ncclResult_t result = library.ncclCommAbort(comm);
    if (!IsFine(result)) {
      log::Warn("an NCCL communicator was not aborted in order: ",
                library.ncclGetErrorString(result));
    }
    for (const Unfinished& split : unfinished) {
      if (*split.slot != nullptr) (void)library.ncclCommAbort(*split.slot);
    }
  }
};

class Handle::Use {
 public:
  explicit Use(Handle& handle) : handle_(handle) {
    std::lock_guard lock(handle_.mutex_);
    comm_ = handle_.comm_;
    handle_.is_used_ = true;
  }
  ~Use() {
    std::lock_guard lock(handle_.mutex_);
    handle_.is_used_ = false;
    if (handle_.aborted_) handle_.EndLater(/*in_order=*/false);
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  ncclComm_t comm() const { return comm_; }

 private:
  Handle& handle_;
  ncclComm_t comm_;
};

StatusOr<std::unique_ptr<Handle>> Handle::Init(
    const Library& library, std::shared_ptr<cuda::Gpu> gpu, const ncclUniqueId& id, int rank,
    int size, Deadline deadline, const std::atomic<bool>* cancelled, std::shared_ptr<void> held) {
  std::unique_ptr<Handle> handle(new Handle(library, std::move(gpu), std::move(held)));
  ncclConfig_t config = NonBlocking();
  handle->slot_ = std::make_shared<ncclComm_t>(nullptr);
  const ncclResult_t begun =
      library.ncclCommInitRankConfig(handle->slot_.get(), size, id, rank, &config);
  handle->comm_ = *handle->slot_;
  LOCKSTEP_RETURN_IF_ERROR(ToStatus(library, begun, "ncclCommInitRankConfig", nullptr));
  LOCKSTEP_RETURN_IF_ERROR(handle->AwaitNccl("ncclCommInitRankConfig", deadline, cancelled));
  handle->in_order_ = true;
  return handle;
}

bool Handle::CanSplit() {
  const Use use(*this);
  return use.comm() != nullptr && in_order_ && unfinished_.empty();
}

StatusOr<std::unique_ptr<Handle>> Handle::SplitAll(int rank, Deadline deadline,
                                                   const std::atomic<bool>* cancelled,
                                                   std::shared_ptr<void> held) {
  std::unique_ptr<Handle> child(new Handle(library_, gpu_, std::move(held)));
  child->slot_ = std::make_shared<ncclComm_t>(nullptr);
  ncclConfig_t config = NonBlocking();
  {
    const Use use(*this);
    if (use.comm() == nullptr) return cause();
    // Nothing is shared with this one: an abort of the one is not to touch the other.
    const ncclResult_t begun =
        library_.ncclCommSplit(use.comm(), /*color=*/0, rank, child->slot_.get(), &config);
    // Until it is through, it writes there.
    unfinished_.push_back({child->slot_, child->held_});
    LOCKSTEP_RETURN_IF_ERROR(ToStatus(library_, begun, "ncclCommSplit", use.comm()));
  }
  LOCKSTEP_RETURN_IF_ERROR(AwaitNccl("ncclCommSplit", deadline, cancelled));
  {
    // Aborted before this, it has taken the new one with it.
    const Use use(*this);
    if (use.comm() == nullptr) return cause();
    unfinished_.clear();
  }
  child->comm_ = *child->slot_;
  LOCKSTEP_RETURN_IF_ERROR(child->AwaitNccl("ncclCommSplit", deadline, cancelled));
  child->in_order_ = true;
  return child;
}

void Handle::Register(std::shared_ptr<RegisteredMemory> memory, Deadline deadline) {
  if (memory == nullptr) return;
  Status registered;
  {
    const Use use(*this);
    if (use.comm() == nullptr) return;
    memory_ = std::move(memory);
    registered = ToStatus(library_,
                          library_.register_memory(use.comm(), memory_->data(),
                                                   memory_->size_bytes(), &registration_),
                          "ncclCommRegister", use.comm());
  }
  if (registered.ok()) registered = AwaitNccl("ncclCommRegister", deadline, nullptr);
  if (!registered.ok()) log::Warn("collectives copy on their way: ", Message(registered));
}

Handle::~Handle() {
  std::lock_guard lock(mutex_);
  EndLater(in_order_ && unfinished_.empty());
}

void Handle::EndLater(bool in_order) {
  ncclComm_t const comm = std::exchange(comm_, nullptr);
  if (comm == nullptr) return;
  // What an end in order needs is its thread's who asks for it; an abort may come from any.
  const auto native = std::make_shared<Native>(
      Native{library_, gpu_, comm, slot_, std::move(unfinished_), memory_,
             in_order ? registration_ : nullptr, in_order ? last_ : nullptr, held_});
  // A GPU that is lost takes everything with it when the process ends.
  if (!gpu_->Loss().ok()) return LeaveBehind(native);
  EndOnThread([native, in_order] {
    const Status bound = native->gpu->Bind();
    if (!bound.ok()) log::Warn("a communicator ends without its GPU: ", Message(bound));
    if (!in_order || !native->Close()) native->Abort();
  });
}

Status Handle::AwaitNccl(const char* what, Deadline deadline, const std::atomic<bool>* cancelled) {
  Backoff backoff(kPace);
  while (true) {
    {
      const Use use(*this);
      if (use.comm() == nullptr) return cause();
      ncclResult_t state = ncclSuccess;
      LOCKSTEP_RETURN_IF_ERROR(ToStatus(library_,
                                        library_.ncclCommGetAsyncError(use.comm(), &state),
                                        "ncclCommGetAsyncError", use.comm()));
      LOCKSTEP_RETURN_IF_ERROR(ToStatus(library_, state, what, use.comm()));
      if (state != ncclInProgress) return OkStatus();
    }
    if (cancelled != nullptr && *cancelled) return Aborted(what, " was cancelled");
    if (deadline.Expired()) return DeadlineExceeded(what, " was not through in time");
    backoff.Pause();
  }
}

Status Handle::Run(const char* what, Deadline deadline, const std::atomic<bool>* cancelled,
                   const std::function<ncclResult_t(const Library&, ncclComm_t)>& calls) {
  bool in_progress = false;
  {
    const Use use(*this);
    if (use.comm() == nullptr) return cause();
    const ncclResult_t result = calls(library_, use.comm());
    if (!IsFine(result)) in_order_ = false;
    LOCKSTEP_RETURN_IF_ERROR(ToStatus(library_, result, what, use.comm()));
    in_progress = result == ncclInProgress;
  }
  if (!in_progress) return OkStatus();
  const Status settled = AwaitNccl(what, deadline, cancelled);
  if (!settled.ok()) in_order_ = false;
  return settled;
}

Status Handle::Health() {
  const Use use(*this);
  if (use.comm() == nullptr) return cause();
  ncclResult_t state = ncclSuccess;
  LOCKSTEP_RETURN_IF_ERROR(ToStatus(library_, library_.ncclCommGetAsyncError(use.comm(), &state),
                                    "ncclCommGetAsyncError", use.comm()));
  return ToStatus(library_, state, "NCCL", use.comm());
}

void Handle::Abort(const Status& cause) {
  std::lock_guard lock(mutex_);
  if (aborted_) return;
  cause_ = cause;
  aborted_ = true;
  if (!is_used_) EndLater(/*in_order=*/false);
}

Status Handle::cause() {
  std::lock_guard lock(mutex_);
  return cause_;
}

}  // namespace lockstep::collective::nccl
