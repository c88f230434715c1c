#include "runtime/client/whole_tensors.h"

#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/client/session_commands.h"

namespace lockstep::client {

Status WholeTensors::CopyToWorker0(const DRef& to, ConstBuffer from) {
  LOCKSTEP_RETURN_IF_ERROR(core_.CheckOwn(to, "the register"));
  LOCKSTEP_RETURN_IF_ERROR(ForgetLayout(core_, to));
  const Status written = bulk_.Write(to, from);
  core_.DropCopies(to);
  return written;
}

StatusOr<DRef> WholeTensors::CopyToWorker0(const Shape& shape, ConstBuffer from) {
  LOCKSTEP_RETURN_IF_ERROR(shape.Validate(SizeOf(from.dtype)));
  if (static_cast<size_t>(shape.NumElements()) != from.count) {
    return InvalidArgument("shape ", shape, " has ", shape.NumElements(),
                           " elements, the buffer has ", from.count);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(DRef to, IssueEmpty(core_, shape, from.dtype, 0));
  LOCKSTEP_RETURN_IF_ERROR(CopyToWorker0(to, from));
  return to;
}

StatusOr<DRef> WholeTensors::CopyToWorker0(const HostTensor& from) {
  if (from.data.size() % SizeOf(from.dtype) != 0) {
    return InvalidArgument(from.data.size(), " bytes are no whole elements of ", from.dtype);
  }
  return CopyToWorker0(from.shape,
                       {from.data.data(), from.data.size() / SizeOf(from.dtype), from.dtype});
}

StatusOr<DRef> WholeTensors::Place(const HostTensor& tensor, const plan::Layout& layout,
                                   MovedFor use) {
  LOCKSTEP_RETURN_IF_ERROR(CheckLayout(core_, layout, tensor.shape, tensor.dtype));
  LOCKSTEP_ASSIGN_OR_RETURN(plan::Layout whole, OnWorker0(tensor.shape, tensor.dtype));
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef source, CopyToWorker0(tensor));
  core_.SetLayout(source, std::make_shared<const plan::Layout>(std::move(whole)));
  if (use == MovedFor::kFragment) core_.fragment_traffic().AddSent(tensor.data.size());
  return IssueReshard(core_, source, layout, use);
}

StatusOr<DRef> WholeTensors::Place(const HostTensor& tensor, fragment::Split split) {
  std::optional<plan::Placement> placement = fragment::PlacementFor(split);
  if (!placement.has_value()) {
    return InvalidArgument(
        "a tensor of the client's is placed nowhere yet: split it by rows, "
        "columns or none");
  }
  std::vector<Rank> ranks(static_cast<size_t>(core_.facts().num_workers));
  std::iota(ranks.begin(), ranks.end(), 0);
  LOCKSTEP_ASSIGN_OR_RETURN(plan::Mesh workers, plan::Mesh::Line(std::move(ranks)));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const plan::Layout layout,
      plan::Layout::Make(tensor.shape, tensor.dtype, std::move(workers), {*std::move(placement)}));
  return Place(tensor, layout, MovedFor::kProgram);
}

StatusOr<HostTensor> WholeTensors::Collect(const DRef& ref) {
  LOCKSTEP_ASSIGN_OR_RETURN(const plan::Layout layout, KnownLayout(core_, ref));
  LOCKSTEP_ASSIGN_OR_RETURN(const plan::Layout whole, OnWorker0(layout.shape(), layout.dtype()));
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef gathered, IssueReshard(core_, ref, whole));
  return bulk_.Read(gathered);
}

}  // namespace lockstep::client
