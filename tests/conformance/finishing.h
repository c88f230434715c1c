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

  Status Usable() override { return comm_->Usable(); }
  Status CheckReducible(ReduceOp op, DType dtype) const override {
    return comm_->CheckReducible(op, dtype);
  }
  bool RecvMayStillChange() const override { return comm_->RecvMayStillChange(); }
  void ReportAs(std::string whole) override { comm_->ReportAs(std::move(whole)); }
  void Leave(const Status& why) override { comm_->Leave(why); }
  void Abort(const Status& cause) override { comm_->Abort(cause); }

 protected:
  Status DoRun(const Operation& operation, Deadline deadline) override {
    if (operation.kind == Kind::kBarrier) return comm_->Run(operation, deadline);
    const OnGpu gpu(*memory_, operation.send, operation.recv);
    Operation on_gpu = operation;
    on_gpu.send = gpu.send;
    on_gpu.recv = gpu.recv;
    LOCKSTEP_RETURN_IF_ERROR(comm_->Run(on_gpu, deadline));
    LOCKSTEP_RETURN_IF_ERROR(finish_(deadline));
    gpu.BringBack();
    return OkStatus();
  }
  StatusOr<std::unique_ptr<Communicator>> DoSplit(absl::Span<const Rank> group_ranks, uint64_t tag,
                                                  Deadline deadline,
                                                  const std::atomic<bool>* cancelled) override {
    LOCKSTEP_ASSIGN_OR_RETURN(auto part, comm_->Split(group_ranks, tag, deadline, cancelled));
    return std::make_unique<Finishing>(std::move(part), memory_, finish_);
  }

 private:
  const std::unique_ptr<Communicator> comm_;
  const std::shared_ptr<KnowingAllocator> memory_;
  const Finish finish_;
};

}  // namespace lockstep::collective
