// The communicator interface by NCCL. nccl.h tells how it works.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "runtime/collective/call.h"
#include "runtime/collective/communicator.h"
#include "runtime/collective/nccl/agreement.h"
#include "runtime/collective/nccl/communicator_slots.h"
#include "runtime/collective/nccl/handle.h"
#include "runtime/collective/nccl/nccl.h"
#include "runtime/collective/nccl/reduction_plan.h"
#include "runtime/collective/operation.h"
#include "runtime/cuda/elements.h"

namespace lockstep::collective::nccl {

// What all communicators of a rank's GPU share.
struct CommunicatorResources {
  const Library& library;
  std::shared_ptr<cuda::StreamPair> streams;
  std::shared_ptr<tensor::Allocator> allocator;
  std::shared_ptr<RegisteredMemory> registered;     // may be null
  std::function<void(const WaitLimit&)> make_room;  // gives free memory back to the GPU
  std::shared_ptr<CommunicatorSlots> slots;
  // Set once a rank of the world was lost: the ranks close nothing together any more.
  std::atomic<bool> is_abandoned{false};
  cuda::Elements elements;
};

class NcclCommunicator final : public DeviceCommunicator {
 public:
  // Connects the GPUs of `host`'s ranks when it is used first: by a split of `whole`, if that lives
  // and connects the same ones.
  NcclCommunicator(std::shared_ptr<CommunicatorResources> resources,
                   std::shared_ptr<Communicator> host, std::weak_ptr<Handle> whole = {})
      : resources_(std::move(resources)), host_(std::move(host)), whole_(std::move(whole)) {}

  ~NcclCommunicator() override;

  Rank rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  absl::Span<const Rank> members() const override { return host_->members(); }
  std::string_view backend() const override { return "nccl"; }

  Status AgreeOnHostMemory(const std::string& what, Deadline deadline) override;
  Status Usable() override;
  Status CheckReducible(ReduceOp op, DType dtype) const override;
  // NCCL lets go of a rank's memory before its kernel ends.
  bool RecvMayStillChange() const override { return host_->RecvMayStillChange(); }
  void ReportAs(std::string whole) override { agreement_.ReportAs(std::move(whole)); }
  void Leave(const Status& why) override { host_->Leave(why); }
  void Abort(const Status& cause) override;
  void AbortHost(const Status& cause) override;
  Status Connect(Deadline deadline) override;
  std::shared_ptr<DeviceConnection> connection() const override { return handle_; }
  void UseAgreed(Agreed* agreed) override { agreed_ = agreed; }
  uint64_t PlaceOf(ConstBuffer, ConstBuffer) const override { return 0; }
  bool HasPlaces() const override { return false; }

 protected:
  Status DoRun(const Operation& operation, Deadline deadline) override {
    return Dispatch(*this, operation, deadline);
  }
  StatusOr<std::unique_ptr<Communicator>> DoSplit(absl::Span<const Rank> group_ranks, uint64_t tag,
                                                  Deadline deadline,
                                                  const std::atomic<bool>* cancelled) override;

 private:
  friend Status Dispatch<NcclCommunicator>(NcclCommunicator&, const Operation&, Deadline);
  Status DoAllReduce(ConstBuffer send, Buffer recv, ReduceOp op, Deadline deadline);
  Status DoReduce(ConstBuffer send, Buffer recv, ReduceOp op, Rank root, Deadline deadline);
  Status DoReduceScatter(ConstBuffer send, Buffer recv, Counts counts, ReduceOp op,
                         Deadline deadline);
  Status DoBroadcast(ConstBuffer send, Buffer recv, Rank root, Deadline deadline);
  Status DoAllGather(ConstBuffer send, Buffer recv, Counts counts, Deadline deadline);
  Status DoGather(ConstBuffer send, Buffer recv, Counts counts, Rank root, Deadline deadline);
  Status DoScatter(ConstBuffer send, Buffer recv, Counts counts, Rank root, Deadline deadline);
  Status DoAllToAll(ConstBuffer send, Counts send_counts, Buffer recv, Counts recv_counts,
                    Deadline deadline);
  Status DoSend(ConstBuffer send, Rank to, Deadline deadline);
  Status DoRecv(Buffer recv, Rank from, Deadline deadline);
  Status DoSendRecv(ConstBuffer send, Rank to, Buffer recv, Rank from, Deadline deadline);
  Status DoBarrier(Deadline deadline);

  using Calls = std::function<ncclResult_t(const Library&, ncclComm_t, NativeStream)>;

  // All ranks tell each other what they call, unless that is known. OK if it is the same.
  Status Agree(const Call& call, uint64_t count, Counts counts, Deadline deadline) {
    if (agreed_ != nullptr && agreed_->is_known) return OkStatus();
    return Keep(agreement_.Agree(call, count, counts, deadline));
  }
  // Of an all-to-all; true if all parts are equally large.
  StatusOr<bool> AgreeOnPairs(DType dtype, Counts send_counts, Counts recv_counts,
                              Deadline deadline);
  // How this rank can connect, as all tell each other before they do.
  enum class Means : int32_t { kNone, kUniqueId, kSplit };
  // What Connect() does if it has yet to do it.
  StatusOr<std::shared_ptr<Handle>> MakeHandle(Deadline deadline);
  // Before a message.
  Status RequireConnected() const;

  // Keeps a failure, after which this is of no use any more.
  Status Keep(const Status& status) { return status.ok() ? status : Fail(status); }
  Status Fail(const Status& failure);

  // Puts what `calls` calls into the communication stream: it works on this memory. The ranks have
  // agreed. `what` is a literal, of the operation's own. `peer`: the rank that it is an operation
  // with, if with one.
  Status Post(const char* what, absl::Span<const MemoryRange> memory, Deadline deadline,
              const Calls& calls, Rank peer = -1);
  // NCCL connects ranks, and allocates what that takes, with the first use of each of its
  // algorithms, which it chooses by the operation and the size, and with the first message to a
  // peer. True for what may be the first of its kind.
  bool IsFirstOfItsKind(const char* what, size_t size_bytes, Rank peer);

  // Sends and receives of bytes as one group: part r goes to, or comes from, rank r; empty ones are
  // left out.
  struct Parts {
    std::vector<MemoryRange> send;
    std::vector<MemoryRange> recv;
  };
  static ncclResult_t Exchange(const Library& nccl, ncclComm_t comm, NativeStream stream,
                               const Parts& parts);

  // Reduces by `calls` from `send` to `recv`, or from and to wider copies of them. A buffer that
  // this rank has no part in is empty.
  using Reduction =
      std::function<ncclResult_t(const Library&, ncclComm_t, NativeStream, const void*, void*)>;
  Status PostReduction(const char* what, const ReductionPlan& plan, ConstBuffer send, Buffer recv,
                       Deadline deadline, const Reduction& calls);

  const std::shared_ptr<CommunicatorResources> resources_;
  const std::shared_ptr<Communicator> host_;
  const std::weak_ptr<Handle> whole_;
  CallAgreement agreement_{*host_};
  Agreed* agreed_ = nullptr;  // borrowed
  // What was done, by operation: a bit for each power of two of bytes, or for peers.
  std::vector<std::pair<const char*, uint64_t>> kinds_done_;
  Status failure_;
  std::atomic<bool> is_given_up_{false};
  std::mutex mutex_;  // guards what follows, but the executing thread may read handle_ without
  std::shared_ptr<Handle> handle_;  // null: the GPUs are not connected
  Status aborted_;
  bool handle_is_aborted_ = false;  // or will be, once it is there
};

inline MemoryRange RangeOf(ConstBuffer buffer) {
  return {buffer.data, buffer.count * SizeOf(buffer.dtype)};
}

}  // namespace lockstep::collective::nccl
