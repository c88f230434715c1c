#include "runtime/client/host_tensors.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <utility>

#include "runtime/base/quantity.h"
#include "runtime/client/layout_commands.h"
#include "runtime/client/session_commands.h"
#include "runtime/control/value_codec.h"

namespace lockstep::client {

template <typename Fill>
StatusOr<BorrowedTensor> HostTensors::Borrow(DRef* name, Fill fill) {
  return bulk_.Borrow([&] {
    return core_.AskNaming(0, name, [&](wire::Command::Builder command, RegisterId id) {
      command.setOnlyRank(0);
      fill(command.initLend(), id);
    });
  });
}

StatusOr<SharedTensor> HostTensors::Make(const Shape& shape, DType dtype) {
  LOCKSTEP_RETURN_IF_ERROR(shape.Validate(SizeOf(dtype)));
  const SessionCore::WorkerZero worker = core_.IdentifyWorkerZero();
  if (LendsNothing(worker)) {
    LOCKSTEP_RETURN_IF_ERROR(core_.Look());
    return MakeOwn(shape, dtype);
  }
  const auto fill = [&](wire::Command::Lend::Builder lend, RegisterId id) {
    lend.setRegister(id.Packed());
    lend.setIsNew(true);
    lend.setDtype(control::ToWire(dtype));
    control::WriteDims(lend.initShape(static_cast<unsigned>(shape.ndim())), shape);
  };
  DRef ref;
  LOCKSTEP_ASSIGN_OR_RETURN(BorrowedTensor lent, Borrow(&ref, fill));
  if (lent.memory != nullptr) return Wrap(std::move(lent), std::move(ref), DRef());
  std::lock_guard lock(mutex_);
  lends_nothing_ = worker;
  return MakeOwn(shape, dtype);
}

StatusOr<SharedTensor> HostTensors::MoveFromWorker0(DRef from) {
  LOCKSTEP_RETURN_IF_ERROR(core_.CheckOwn(from, "the register"));
  if (bulk_.maps_memory()) {
    // The register may have other names, and live on: the loan ends when this one is dropped.
    const auto fill = [&](wire::Command::Lend::Builder lend, RegisterId name) {
      lend.setRegister(from.id().Packed());
      lend.setLoan(name.Packed());
    };
    DRef loan;
    LOCKSTEP_ASSIGN_OR_RETURN(BorrowedTensor lent, Borrow(&loan, fill));
    if (lent.memory != nullptr) return Wrap(std::move(lent), std::move(from), std::move(loan));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const HostTensor copied, bulk_.Read(from));
  LOCKSTEP_ASSIGN_OR_RETURN(SharedTensor tensor, MakeOwn(copied.shape, copied.dtype));
  std::copy(copied.data.begin(), copied.data.end(), static_cast<char*>(tensor.data()));
  return tensor;
}

StatusOr<DRef> HostTensors::MoveToWorker0(SharedTensor&& from) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld(from));
  LOCKSTEP_ASSIGN_OR_RETURN(const HandOver over, Prepare(from));
  if (!over.loan.IsNone()) LOCKSTEP_RETURN_IF_ERROR(core_.EndLoan(over.loan));
  Finish(std::move(from));
  return over.ref;
}

StatusOr<DRef> HostTensors::DealOut(OperationKind kind, SharedTensor&& from,
                                    const CollectiveOptions& options) {
  CollectiveCall call{.kind = kind};
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld(from));
  LOCKSTEP_RETURN_IF_ERROR(CheckPlaces(core_, call, options));
  const bool has_other_roots = options.in_group && core_.facts().num_groups > 1;
  if (has_other_roots || (!options.team.empty() && options.team.front() != 0)) {
    return InvalidArgument("a host tensor is dealt out from worker-0, but ",
                           has_other_roots ? "each group has" : "this team has",
                           " another first rank");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const HandOver over, Prepare(from));
  call.source = over.ref;
  call.loan = over.loan;
  // Who has another name of the register takes it to stay.
  call.gives_source = over.loan.IsNone() || from.loan_.IsNull();
  LOCKSTEP_ASSIGN_OR_RETURN(DRef result, IssueCollective(core_, call, options));
  Finish(std::move(from));
  return result;
}

StatusOr<DRef> HostTensors::Place(SharedTensor&& from, const plan::Layout& layout) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld(from));
  LOCKSTEP_RETURN_IF_ERROR(CheckLayout(core_, layout, from.shape(), from.dtype()));
  LOCKSTEP_ASSIGN_OR_RETURN(plan::Layout whole, OnWorker0(from.shape(), from.dtype()));
  LOCKSTEP_RETURN_IF_ERROR(plan::CheckReshard(whole, layout));
  LOCKSTEP_ASSIGN_OR_RETURN(const HandOver over, Prepare(from));
  core_.SetLayout(over.ref, std::make_shared<const plan::Layout>(std::move(whole)));
  StatusOr<DRef> placed = IssueReshard(core_, over.ref, layout, MovedFor::kProgram, over.loan);
  if (!placed.ok()) {
    (void)core_.ForgetLayout(over.ref);
    return placed;
  }
  Finish(std::move(from));
  return placed;
}

StatusOr<HostTensors::HandOver> HostTensors::Prepare(const SharedTensor& from) {
  // Its elements are here also if that worker-0 is lost.
  if (!IsLentHere(from)) {
    LOCKSTEP_ASSIGN_OR_RETURN(DRef copied, tensors_.CopyToWorker0(from.shape(), from.buffer()));
    return HandOver{std::move(copied)};
  }
  // Of what was taken other ranks may have the same elements, which the program may have changed.
  if (!from.loan_.IsNull()) LOCKSTEP_RETURN_IF_ERROR(ForgetLayout(core_, from.ref_));
  // Stores that bypass the caches are done before worker-0 is told.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return HandOver{from.ref_, (from.loan_.IsNull() ? from.ref_ : from.loan_).id()};
}

void HostTensors::Finish(SharedTensor from) {
  // Made of it while the program could write to it.
  if (core_.CheckOwn(from.ref_, "").ok()) core_.DropCopies(from.ref_);
}

Status HostTensors::CheckHeld(const SharedTensor& tensor) const {
  if (!tensor.IsNull()) return OkStatus();
  return InvalidArgument(SharedTensor::kIsNull);
}

SharedTensor HostTensors::Wrap(BorrowedTensor lent, DRef ref, DRef loan) {
  SharedTensor tensor;
  tensor.dtype_ = lent.dtype;
  tensor.shape_ = lent.shape;
  tensor.data_ = lent.memory;
  tensor.ref_ = std::move(ref);
  tensor.loan_ = std::move(loan);
  tensor.segment_ = std::move(lent.segment);
  tensor.lender_ = {lent.lender.first_command, lent.lender.pid};
  tensor.generation_ = lent.generation;
  return tensor;
}

StatusOr<SharedTensor> HostTensors::MakeOwn(const Shape& shape, DType dtype) {
  constexpr size_t kAlignment = 64;
  SharedTensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = shape;
  const size_t size_bytes = static_cast<size_t>(shape.NumElements()) * SizeOf(dtype);
  const size_t whole = std::max<size_t>(1, (size_bytes + kAlignment - 1) / kAlignment);
  tensor.owned_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, whole * kAlignment)));
  if (tensor.owned_ == nullptr) {
    return ResourceExhausted("there is no memory for a host tensor of ", RoundedSize(size_bytes));
  }
  tensor.data_ = tensor.owned_.get();
  return tensor;
}

bool HostTensors::LendsNothing(const SessionCore::WorkerZero& worker) {
  std::lock_guard lock(mutex_);
  return !bulk_.maps_memory() || lends_nothing_ == worker;
}

bool HostTensors::IsLentHere(const SharedTensor& tensor) {
  // Also in one process sessions may have the same numbers, and workers the same facts: sessions of
  // several clusters, or one that was left and attached to again, which has ended its loans.
  if (!tensor.is_lent() || !core_.CheckOwn(tensor.ref_, "").ok()) return false;
  // A failed command may have taken its tensor from a register that was there before. (What was
  // made has no register that a command before the hand-over could name.)
  if (!tensor.loan_.IsNull() && tensor.generation_ != core_.generation()) return false;
  const SessionCore::WorkerZero now = core_.IdentifyWorkerZero();
  return tensor.lender_ == SharedTensor::Lender{now.first_command, now.pid};
}

}  // namespace lockstep::client
