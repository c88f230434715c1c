// The communicator interface by NCCL. nccl.h tells how it works.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "runtime/collective/call.h"
#include "runtime/collective/communicator.h"
#include "runtime/collective/dispatch.h"
#include "runtime/collective/nccl/handle.h"
#include "runtime/collective/nccl/nccl.h"
#include "runtime/cuda/elements.h"

namespace lockstep::collective::nccl {

// What all communicators of a rank's GPU share.
struct Device {
  const Library& library;
  std::shared_ptr<cuda::StreamPair> streams;
  std::shared_ptr<tensor::Allocator> allocator;
  std::shared_ptr<RegisteredMemory> registered;  // may be null
  std::function<void()> make_room;               // gives free memory back to the GPU
  // Set once a rank of the world was lost: nobody closes anything together any more.
  std::atomic<bool> is_abandoned{false};
  cuda::Elements elements;
};

class NcclCommunicator final : public GpuCommunicator {
 public:
  // Both connect the same ranks in the same order.
  NcclCommunicator(std::shared_ptr<Device> device, std::shared_ptr<Communicator> host,
                   std::shared_ptr<Handle> handle)
      : device_(std::move(device)), host_(std::move(host)), handle_(std::move(handle)) {}

  ~NcclCommunicator() override;

  // Connects the GPUs of `host`'s ranks: by `whole`, if it is not null and connects the same ones.
  static StatusOr<std::unique_ptr<NcclCommunicator>> Make(std::shared_ptr<Device> device,
                                                          std::shared_ptr<Communicator> host,
                                                          Handle* whole, Deadline deadline,
                                                          const std::atomic<bool>* cancelled);

  Rank rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  absl::Span<const Rank> members() const override { return host_->members(); }
  std::string_view backend() const override { return "nccl"; }

  // agreement.cc
  Status AgreeOnHostMemory(const std::string& what, Deadline deadline) override;
  Status Usable() override;
  Status CheckReducible(ReduceOp op, DType dtype) const override;
  // NCCL lets go of a rank's memory before its kernel ends.
  bool RecvMayStillChange() const override { return host_->RecvMayStillChange(); }
  void ActFor(std::string whole) override { whole_ = std::move(whole); }
  void Leave(const Status& why) override { host_->Leave(why); }
  void Abort(const Status& cause) override;
  void AbortHost(const Status& cause) override;
  std::shared_ptr<Connection> connection() const override { return handle_; }

 protected:
  Status DoRun(const Operation& operation, Deadline deadline) override {
    return Dispatch(*this, operation, deadline);
  }
  StatusOr<std::unique_ptr<Communicator>> DoSplit(absl::Span<const Rank> group_ranks, uint64_t tag,
                                                  Deadline deadline,
                                                  const std::atomic<bool>* cancelled) override;

 private:
  friend Status Dispatch<NcclCommunicator>(NcclCommunicator&, const Operation&, Deadline);
  // reductions.cc
  Status DoAllReduce(ConstBuffer send, Buffer recv, ReduceOp op, Deadline deadline);
  Status DoReduce(ConstBuffer send, Buffer recv, ReduceOp op, Rank root, Deadline deadline);
  Status DoReduceScatter(ConstBuffer send, Buffer recv, Counts counts, ReduceOp op,
                         Deadline deadline);
  // movements.cc
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

  // What ranks compare.
  struct Header {
    Call call;
    uint64_t count = 0;
    uint64_t hash = 0;  // of all else
  };

  using Calls = std::function<ncclResult_t(const Library&, ncclComm_t, NativeStream)>;

  // agreement.cc
  // All ranks tell each other what they call. OK if it is the same.
  Status Agree(const Call& call, uint64_t count, Counts counts, Deadline deadline);
  // The same, of anything that has a header; `where` goes with `what` if the ranks disagree.
  Status AgreeOn(const Header& mine, const std::string& what, const char* where, Deadline deadline);
  // Also whether all parts of all ranks are equally large.
  StatusOr<bool> AgreeOnPairs(DType dtype, Counts send_counts, Counts recv_counts,
                              Deadline deadline);
  // Tells `to` what it is sent, and is told by `from` what comes; refused on both sides if it is
  // not expected. -1: nobody.
  Status AgreeOnMessages(ConstBuffer send, Rank to, ConstBuffer recv, Rank from, Deadline deadline);

  Status Fail(const Status& failure);

  // Puts what `calls` calls into the communication stream: it works on this memory. The ranks have
  // agreed.
  Status Post(const char* what, absl::Span<const cuda::Range> memory, Deadline deadline,
              const Calls& calls);

  // Sends and receives of bytes as one group: part r goes to, or comes from, rank r; empty ones are
  // left out.
  struct Parts {
    std::vector<cuda::Range> send;
    std::vector<cuda::Range> recv;
  };
  static ncclResult_t Exchange(const Library& nccl, ncclComm_t comm, NativeStream stream,
                               const Parts& parts);

  // A reduction as NCCL does it: perhaps of wider elements.
  struct Plan {
    ncclDataType_t type;
    ncclRedOp_t op;
    DType wide;        // that of the elements that NCCL reduces
    bool makes_bools;  // what is not 0 becomes 1
    // Wider copies of what is reduced, and of the result; null: it is as wide as it is reduced.
    std::shared_ptr<tensor::Storage> wide_send;
    std::shared_ptr<tensor::Storage> wide_recv;
  };
  static Plan PlanOf(ReduceOp op, DType dtype);
  // With the memory that it takes.
  StatusOr<Plan> PlanFor(ReduceOp op, ConstBuffer send, Buffer recv);
  // Reduces by `calls` from `send` to `recv`, or from and to wider copies of them. A buffer that
  // this rank has no part in is empty.
  using Reduction =
      std::function<ncclResult_t(const Library&, ncclComm_t, NativeStream, const void*, void*)>;
  Status PostReduction(const char* what, const Plan& plan, ConstBuffer send, Buffer recv,
                       Deadline deadline, const Reduction& calls);

  const std::shared_ptr<Device> device_;
  const std::shared_ptr<Communicator> host_;
  const std::shared_ptr<Handle> handle_;
  std::string whole_;
  Status failure_;
  std::atomic<bool> is_given_up_{false};
  std::mutex mutex_;  // guards what follows
  Status aborted_;
};

inline cuda::Range RangeOf(ConstBuffer buffer) {
  return {buffer.data, buffer.count * SizeOf(buffer.dtype)};
}

}  // namespace lockstep::collective::nccl
