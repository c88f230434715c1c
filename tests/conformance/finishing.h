// Lets the suite use a communicator of GPUs as it uses those of CPUs: an operation returns when it
// is over, on the GPU, too, and memory of the host that it is given is copied there and back.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/collective/communicator.h"
#include "runtime/tensor/storage.h"
#include "tests/conformance/world_under_test.h"

namespace lockstep::collective {

// Some bytes.
struct Span {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;

  explicit Span(ConstBuffer buffer)
      : begin(static_cast<const std::byte*>(buffer.data)),
        end(begin + buffer.count * SizeOf(buffer.dtype)) {}
  Span(const void* data, size_t size)
      : begin(static_cast<const std::byte*>(data)), end(begin + size) {}
  size_t size() const { return static_cast<size_t>(end - begin); }
  bool Meets(const Span& other) const { return begin < other.end && other.begin < end; }
};

// Knows what it has handed out.
class KnowingAllocator final : public tensor::Allocator {
 public:
  explicit KnowingAllocator(std::shared_ptr<tensor::Allocator> allocator)
      : allocator_(std::move(allocator)) {}

  StatusOr<std::shared_ptr<tensor::Storage>> Allocate(size_t size_bytes) override {
    LOCKSTEP_ASSIGN_OR_RETURN(auto storage, allocator_->Allocate(size_bytes));
    std::erase_if(storages_, [](const auto& known) { return known.expired(); });
    storages_.push_back(storage);
    return storage;
  }
  tensor::AllocatorStats Stats() const override { return allocator_->Stats(); }

  bool Knows(const Span& span) const {
    return std::any_of(storages_.begin(), storages_.end(), [&](const auto& known) {
      const auto storage = known.lock();
      return storage != nullptr && Span(storage->data(), storage->size_bytes()).Meets(span);
    });
  }

 private:
  const std::shared_ptr<tensor::Allocator> allocator_;
  std::vector<std::weak_ptr<tensor::Storage>> storages_;
};

// The buffers of one operation, where the GPU has them.
class OnGpu {
 public:
  OnGpu(KnowingAllocator& memory, ConstBuffer given_send, Buffer given_recv)
      : send(given_send), recv(given_recv), given_recv_(given_recv) {
    Span from(send);
    Span to(recv);
    // One may be a part of the other, and stays it.
    if (from.Meets(to)) {
      from.begin = to.begin = std::min(from.begin, to.begin);
      from.end = to.end = std::max(from.end, to.end);
    }
    if (send.data != nullptr && from.size() > 0 && !memory.Knows(from)) {
      const std::byte* const lent = Lend(memory, from);
      send.data = lent + (Span(given_send).begin - from.begin);
      if (from.Meets(to))
        recv.data = const_cast<std::byte*>(lent) + (Span(given_recv).begin - from.begin);
    }
    if (recv.data != nullptr && to.size() > 0 && recv.data == given_recv.data &&
        !memory.Knows(to)) {
      recv.data = Lend(memory, to);
    }
  }

  ConstBuffer send;
  Buffer recv;

  // Once the operation is over.
  void BringBack() const {
    if (recv.data == given_recv_.data) return;
    DeviceCopies::OfThisThread()->FromDevice(given_recv_.data, recv.data, Span(recv).size());
  }

 private:
  std::byte* Lend(KnowingAllocator& memory, const Span& span) {
    auto storage = memory.Allocate(span.size());
    EXPECT_TRUE(storage.ok()) << storage.status();
    DeviceCopies::OfThisThread()->ToDevice((*storage)->data(), span.begin, span.size());
    lent_.push_back(*std::move(storage));
    return static_cast<std::byte*>(lent_.back()->data());
  }

  const Buffer given_recv_;
  std::vector<std::shared_ptr<tensor::Storage>> lent_;
};

class Finishing final : public Communicator {
 public:
  using Finish = std::function<Status(Deadline)>;

  Finishing(std::unique_ptr<Communicator> comm, std::shared_ptr<KnowingAllocator> memory,
            Finish finish)
      : comm_(std::move(comm)), memory_(std::move(memory)), finish_(std::move(finish)) {}

  Rank rank() const override { return comm_->rank(); }
  int size() const override { return comm_->size(); }
  absl::Span<const Rank> members() const override { return comm_->members(); }
  std::string_view backend() const override { return comm_->backend(); }

  Status AllReduce(ConstBuffer send, Buffer recv, ReduceOp op, Deadline deadline) override {
    return OnDevice(send, recv, deadline, [&](const OnGpu& gpu) {
      return comm_->AllReduce(gpu.send, gpu.recv, op, deadline);
    });
  }
  Status Reduce(ConstBuffer send, Buffer recv, ReduceOp op, Rank root, Deadline deadline) override {
    return OnDevice(send, recv, deadline, [&](const OnGpu& gpu) {
      return comm_->Reduce(gpu.send, gpu.recv, op, root, deadline);
    });
  }
  Status Broadcast(ConstBuffer send, Buffer recv, Rank root, Deadline deadline) override {
    return OnDevice(send, recv, deadline, [&](const OnGpu& gpu) {
      return comm_->Broadcast(gpu.send, gpu.recv, root, deadline);
    });
  }
  Status AllGather(ConstBuffer send, Buffer recv, Counts counts, Deadline deadline) override {
    return OnDevice(send, recv, deadline, [&](const OnGpu& gpu) {
      return comm_->AllGather(gpu.send, gpu.recv, counts, deadline);
    });
  }
  Status Gather(ConstBuffer send, Buffer recv, Counts counts, Rank root,
                Deadline deadline) override {
    return OnDevice(send, recv, deadline, [&](const OnGpu& gpu) {
      return comm_->Gather(gpu.send, gpu.recv, counts, root, deadline);
    });
  }
  Status ReduceScatter(ConstBuffer send, Buffer recv, Counts counts, ReduceOp op,
                       Deadline deadline) override {
    return OnDevice(send, recv, deadline, [&](const OnGpu& gpu) {
      return comm_->ReduceScatter(gpu.send, gpu.recv, counts, op, deadline);
    });
  }
  Status Scatter(ConstBuffer send, Buffer recv, Counts counts, Rank root,
                 Deadline deadline) override {
    return OnDevice(send, recv, deadline, [&](const OnGpu& gpu) {
      return comm_->Scatter(gpu.send, gpu.recv, counts, root, deadline);
    });
  }
  Status AllToAll(ConstBuffer send, Counts send_counts, Buffer recv, Counts recv_counts,
                  Deadline deadline) override {
    return OnDevice(send, recv, deadline, [&](const OnGpu& gpu) {
      return comm_->AllToAll(gpu.send, send_counts, gpu.recv, recv_counts, deadline);
    });
  }
  Status Send(ConstBuffer send, Rank to, Deadline deadline) override {
    return OnDevice(send, Buffer(), deadline,
                    [&](const OnGpu& gpu) { return comm_->Send(gpu.send, to, deadline); });
  }
  Status Recv(Buffer recv, Rank from, Deadline deadline) override {
    return OnDevice(ConstBuffer(), recv, deadline,
                    [&](const OnGpu& gpu) { return comm_->Recv(gpu.recv, from, deadline); });
  }
  Status SendRecv(ConstBuffer send, Rank to, Buffer recv, Rank from, Deadline deadline) override {
    return OnDevice(send, recv, deadline, [&](const OnGpu& gpu) {
      return comm_->SendRecv(gpu.send, to, gpu.recv, from, deadline);
    });
  }
  Status Barrier(Deadline deadline) override { return comm_->Barrier(deadline); }
  bool RecvMayStillChange() const override { return comm_->RecvMayStillChange(); }
  void ActFor(std::string whole) override { comm_->ActFor(std::move(whole)); }
  void Leave(const Status& why) override { comm_->Leave(why); }
  void Abort(const Status& cause) override { comm_->Abort(cause); }

 protected:
  StatusOr<std::unique_ptr<Communicator>> DoSplit(absl::Span<const Rank> group_ranks, uint64_t tag,
                                                  Deadline deadline,
                                                  const std::atomic<bool>* cancelled) override {
    LOCKSTEP_ASSIGN_OR_RETURN(auto part, comm_->Split(group_ranks, tag, deadline, cancelled));
    return std::make_unique<Finishing>(std::move(part), memory_, finish_);
  }

 private:
  template <typename Begin>
  Status OnDevice(ConstBuffer send, Buffer recv, Deadline deadline, const Begin& begin) {
    const OnGpu gpu(*memory_, send, recv);
    LOCKSTEP_RETURN_IF_ERROR(begin(gpu));
    LOCKSTEP_RETURN_IF_ERROR(finish_(deadline));
    gpu.BringBack();
    return OkStatus();
  }

  const std::unique_ptr<Communicator> comm_;
  const std::shared_ptr<KnowingAllocator> memory_;
  const Finish finish_;
};

}  // namespace lockstep::collective
