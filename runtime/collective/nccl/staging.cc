#include "runtime/collective/nccl/staging.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/collective/nccl/agreement.h"

namespace lockstep::collective::nccl {
namespace {

// Where a rank's buffers lie: none of them in registered memory, not all of them, or at a place in
// it that is a hash of both offsets.
constexpr uint64_t kElsewhere = 0;
constexpr uint64_t kMixed = 1;
constexpr uint64_t kFirstPlace = 2;

}  // namespace

bool StagingCommunicator::IsRegistered(ConstBuffer buffer) const {
  const MemoryRange all{resources_->registered->data(), resources_->registered->size_bytes()};
  return buffer.count > 0 && all.Meets(RangeOf(buffer));
}

uint64_t StagingCommunicator::PlaceOf(ConstBuffer send, ConstBuffer recv) const {
  uint64_t mine = kElsewhere;
  bool any_elsewhere = false;
  for (const ConstBuffer& buffer : {send, recv}) {
    const auto offset =
        static_cast<uint64_t>(static_cast<const std::byte*>(buffer.data) -
                              static_cast<std::byte*>(resources_->registered->data()));
    if (IsRegistered(buffer)) mine = std::max(Mix(mine, offset), kFirstPlace);
    any_elsewhere |= buffer.count > 0 && !IsRegistered(buffer);
  }
  return mine != kElsewhere && any_elsewhere ? kMixed : mine;
}

StatusOr<bool> StagingCommunicator::AgreeOnPlaces(const std::string& what, ConstBuffer send,
                                                  ConstBuffer recv, Deadline deadline) {
  if (size() == 1) return true;
  if (agreed_ != nullptr && agreed_->is_known) return agreed_->as_they_are;
  const uint64_t mine = PlaceOf(send, recv);
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::vector<uint64_t> all,
      ShareAmongAll<uint64_t>(*host_, {&mine, 1}, whole_.empty() ? what : whole_, deadline));
  const bool as_they_are =
      mine != kMixed &&
      std::all_of(all.begin(), all.end(), [&](uint64_t theirs) { return theirs == mine; });
  if (agreed_ != nullptr) agreed_->as_they_are = as_they_are;
  return as_they_are;
}

Status StagingCommunicator::Copy(void* to, const void* from, size_t size_bytes) {
  cuda::StreamPair& streams = *resources_->streams;
  LOCKSTEP_RETURN_IF_ERROR(streams.BeginCommunication());
  LOCKSTEP_RETURN_IF_ERROR(streams.communication().Copy(to, from, size_bytes));
  const MemoryRange used[] = {{to, size_bytes}, {from, size_bytes}};
  return streams.EndCommunication(used);
}

Status StagingCommunicator::WithCopies(ConstBuffer send, Buffer recv, Deadline deadline,
                                       const Work& work) {
  // Before anything is in the stream.
  LOCKSTEP_RETURN_IF_ERROR(inner_->Connect(deadline));
  const MemoryRange out = RangeOf(send);
  const MemoryRange in = RangeOf(recv);
  ConstBuffer from = send;
  Buffer to = recv;
  std::shared_ptr<tensor::Storage> send_copy;
  std::shared_ptr<tensor::Storage> recv_copy;
  const auto copy_of = [&](const MemoryRange& range) {
    return resources_->allocator->Allocate(range.size_bytes);
  };
  if (IsRegistered(send) && IsRegistered(recv) && out.Meets(in)) {
    // Done in place, or in a part of it: the larger holds the other, and so does its copy.
    const MemoryRange& whole = out.size_bytes > in.size_bytes ? out : in;
    LOCKSTEP_ASSIGN_OR_RETURN(send_copy, copy_of(whole));
    auto* const copy = static_cast<std::byte*>(send_copy->data());
    const auto* const begin = static_cast<const std::byte*>(whole.begin);
    from.data = copy + (static_cast<const std::byte*>(out.begin) - begin);
    to.data = copy + (static_cast<const std::byte*>(in.begin) - begin);
  } else {
    if (IsRegistered(send)) {
      LOCKSTEP_ASSIGN_OR_RETURN(send_copy, copy_of(out));
      from.data = send_copy->data();
    }
    if (IsRegistered(recv)) {
      LOCKSTEP_ASSIGN_OR_RETURN(recv_copy, copy_of(in));
      to.data = recv_copy->data();
    }
  }
  if (from.data != send.data) {
    LOCKSTEP_RETURN_IF_ERROR(Copy(const_cast<void*>(from.data), send.data, out.size_bytes));
  }
  LOCKSTEP_RETURN_IF_ERROR(work(from, to));
  return to.data == recv.data ? OkStatus() : Copy(recv.data, to.data, in.size_bytes);
}

Status StagingCommunicator::Around(const std::string& what, ConstBuffer send, Buffer recv,
                                   Deadline deadline, const Work& work) {
  LOCKSTEP_ASSIGN_OR_RETURN(const bool as_they_are, AgreeOnPlaces(what, send, recv, deadline));
  return as_they_are ? work(send, recv) : WithCopies(send, recv, deadline, work);
}

Status StagingCommunicator::DoRun(const Operation& operation, Deadline deadline) {
  const auto run = [&](ConstBuffer send, Buffer recv) {
    Operation staged = operation;
    staged.send = send;
    staged.recv = recv;
    return inner_->Run(staged, deadline);
  };
  if (IsMessage(operation.kind)) return WithCopies(operation.send, operation.recv, deadline, run);
  const std::string_view name = Name(operation.kind);
  const std::string what = (name.front() == 'a' ? "an " : "a ") + std::string(name);
  return Around(what, operation.send, operation.recv, deadline, run);
}

StatusOr<std::unique_ptr<Communicator>> StagingCommunicator::DoSplit(
    absl::Span<const Rank> group_ranks, uint64_t tag, Deadline deadline,
    const std::atomic<bool>* cancelled) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<Communicator> host,
                            host_->Split(group_ranks, tag, deadline, cancelled));
  auto inner = std::make_unique<NcclCommunicator>(resources_, host);
  LOCKSTEP_RETURN_IF_ERROR(inner->Connect(deadline));
  return std::make_unique<StagingCommunicator>(resources_, std::move(host), std::move(inner));
}

}  // namespace lockstep::collective::nccl
