#include "services/worker/execute/collective_command.h"

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/shape.h"
#include "runtime/tensor/tensor.h"
#include "services/worker/execute/team.h"
#include "services/worker/values/reachable.h"
#include "services/worker/values/tensor_header.h"

namespace lockstep::worker {
namespace {

using collective::Communicator;
using collective::ReduceOp;
using tensor::Tensor;

static_assert(static_cast<int>(wire::ReduceOp::AVG) == static_cast<int>(ReduceOp::kAvg));

// One command on this rank.
class CollectiveCall {
 public:
  CollectiveCall(const CollectiveContext& context, wire::Command::Collective::Reader command)
      : context_(context), command_(command) {}

  Status Execute();
  // After a failure: what a peer may still write to does not become a value again by a reset.
  void DropDestination();
  CollectiveOutcome outcome() const {
    return {facts_, by_gpus_ ? team_->gpus->connection() : nullptr};
  }

 private:
  Status AllReduce();
  Status Reduce();
  Status Broadcast();
  Status AllGather();
  Status Gather();
  Status ReduceScatter();
  Status Scatter();
  Status AllToAll();
  Status Transfer();
  Status SendToNextGroup();
  Status ReceiveFromPreviousGroup();

  // The tensor in the source register.
  StatusOr<Tensor> Source() const { return TensorIn(command_.getSource(), "source"); }
  // The tensor that receives: a new one, or the one in the destination register, which must have
  // that dtype and number of elements. A new one is kept in destination_ for Keep().
  StatusOr<Tensor> Destination(DType dtype, const Shape& shape, DeviceType place);
  // Puts a new destination into its register, now that it holds the result.
  Status Keep();
  StatusOr<Tensor> TensorIn(uint64_t packed, const char* role) const;

  Status SendTensor(Rank to);
  Status ReceiveTensor(Rank from);

  // The communicator for data that lies there.
  StatusOr<Communicator*> DataBy(DeviceType place);
  StatusOr<Communicator*> DataBy(const Tensor& tensor) { return DataBy(tensor.device().type); }
  // The same before an operation whose ranks have not told each other yet where their data lies.
  StatusOr<Communicator*> DataByAgreement(const Tensor& tensor);

  bool IsRoot() const { return comm_->rank() == command_.getRoot(); }
  ReduceOp op() const { return static_cast<ReduceOp>(command_.getOp()); }
  Deadline deadline() const { return context_.deadline; }

  const CollectiveContext& context_;
  const wire::Command::Collective::Reader command_;
  const Communicators* team_ = nullptr;
  Communicator* comm_ = nullptr;  // the CPUs', for what the ranks tell each other
  Communicator* data_ = nullptr;  // the last that data went by; null: none did
  Tensor destination_;
  bool by_gpus_ = false;  // some data went by them
  CollectiveFacts facts_;
};

uint64_t SizeInBytes(DType dtype, const Shape& shape) {
  return static_cast<uint64_t>(shape.NumElements()) * SizeOf(dtype);
}

// Elements per rank when `rows` rows of `row_elements` are dealt out to `parts` ranks.
std::vector<int64_t> EvenCounts(int64_t rows, int64_t row_elements, int parts) {
  std::vector<int64_t> counts;
  for (int i = 0; i < parts; ++i) counts.push_back(EvenPart(rows, parts, i).count * row_elements);
  return counts;
}

Shape WithRows(Shape shape, int64_t rows) {
  shape[0] = rows;
  return shape;
}

Status CollectiveCall::Execute() {
  LOCKSTEP_ASSIGN_OR_RETURN(const TeamName team, TeamOf(command_, context_.world_size));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::vector<Rank> members,
      MembersOf(team, context_.rank, context_.world_size, context_.session.num_groups()));
  if (!members.empty()) {
    const auto [first, last] = std::minmax_element(members.begin(), members.end());
    context_.activity.Among(*first, *last);
    facts_.first = *first;
    facts_.ranks = static_cast<int>(members.size());
  }
  // Asked for by ranks without a part in it, too, so that all keep the same communicators.
  LOCKSTEP_ASSIGN_OR_RETURN(
      team_, context_.session.CommunicatorsOf(team, members, context_.world, context_.deadline));
  comm_ = team_->cpus.get();
  if (members.empty()) return OkStatus();
  if (command_.getRoot() < 0 || command_.getRoot() >= static_cast<int>(members.size())) {
    return InvalidArgument("the root ", command_.getRoot(), " is not among the ", members.size(),
                           " ranks of the collective");
  }
  // In a message, only who sends or receives it has a part.
  const bool is_message = command_.getKind() >= wire::CollectiveKind::TRANSFER;
  if (!is_message) facts_.backend = comm_->backend();
  switch (command_.getKind()) {
    case wire::CollectiveKind::ALL_REDUCE:
      return AllReduce();
    case wire::CollectiveKind::REDUCE:
      return Reduce();
    case wire::CollectiveKind::BROADCAST:
      return Broadcast();
    case wire::CollectiveKind::ALL_GATHER:
      return AllGather();
    case wire::CollectiveKind::GATHER:
      return Gather();
    case wire::CollectiveKind::REDUCE_SCATTER:
      return ReduceScatter();
    case wire::CollectiveKind::SCATTER:
      return Scatter();
    case wire::CollectiveKind::ALL_TO_ALL:
      return AllToAll();
    case wire::CollectiveKind::BARRIER:
      return comm_->Barrier(deadline());
    case wire::CollectiveKind::TRANSFER:
      return Transfer();
    case wire::CollectiveKind::SEND_TO_NEXT_GROUP:
      return SendToNextGroup();
    case wire::CollectiveKind::RECEIVE_FROM_PREVIOUS_GROUP:
      return ReceiveFromPreviousGroup();
  }
  return Unimplemented("unknown collective ", static_cast<int>(command_.getKind()));
}

void CollectiveCall::DropDestination() {
  if (data_ == nullptr || !data_->RecvMayStillChange() || command_.getMakeDestination()) return;
  const RegisterId id = RegisterId::FromPacked(command_.getDestination());
  const Status killed = context_.session.registers().Kill(id);
  log::Warn("register ", id.Packed(),
            " holds no value any more: a rank that was stopped may still write to it",
            killed.ok() ? "" : "; " + Message(killed));
}

StatusOr<Tensor> CollectiveCall::TensorIn(uint64_t packed, const char* role) const {
  const RegisterId id = RegisterId::FromPacked(packed);
  StatusOr<const registers::Value*> value = context_.session.registers().Read(id);
  if (!value.ok()) return Annotate(value.status(), std::string("the ") + role);
  const auto* tensor = (*value)->As<Tensor>();
  if (tensor == nullptr) {
    return InvalidArgument("the ", role, " (register ", id, ") holds ",
                           registers::Describe(**value), ", not a tensor");
  }
  LOCKSTEP_RETURN_IF_ERROR(RequireReachable(context_.places, *tensor, std::string("the ") + role));
  return *tensor;
}

StatusOr<Communicator*> CollectiveCall::DataBy(DeviceType place) {
  if (place == DeviceType::kCpu) return data_ = comm_;
  if (team_->gpus == nullptr) {
    std::string who = "this rank";
    if (context_.world.gpus != nullptr) {
      const auto without = context_.world.gpus->WithoutGpu(comm_->members());
      if (without.has_value()) who = "rank " + std::to_string(*without);
    }
    return InvalidArgument("the tensor is on a GPU, and ", who,
                           " of the collective has none: move it by lockstep.to_device(tensor, "
                           "\"cpu\") first");
  }
  by_gpus_ = true;
  facts_.backend = team_->gpus->backend();
  return data_ = team_->gpus.get();
}

StatusOr<Communicator*> CollectiveCall::DataByAgreement(const Tensor& tensor) {
  // GPUs agree by themselves. Where there are none, nobody can mean one.
  if (team_->gpus != nullptr && tensor.device().type == DeviceType::kCpu) {
    LOCKSTEP_RETURN_IF_ERROR(team_->gpus->AgreeOnHostMemory(Name(command_.getKind()), deadline()));
  }
  return DataBy(tensor);
}

StatusOr<Tensor> CollectiveCall::Destination(DType dtype, const Shape& shape, DeviceType place) {
  if (command_.getMakeDestination()) {
    tensor::Processor* const processor = context_.places.Of(Device{place});
    if (processor == nullptr) return DataBy(place).status();
    LOCKSTEP_ASSIGN_OR_RETURN(destination_, Tensor::Empty(processor->allocator(), dtype, shape));
    return destination_;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(Tensor tensor, TensorIn(command_.getDestination(), "destination"));
  if (tensor.device().type != place) {
    const bool result_is_here = place == DeviceType::kCpu;
    return InvalidArgument("the destination is on ", tensor.device(), ", and the result ",
                           result_is_here ? "in host memory" : "on the GPU");
  }
  if (tensor.dtype() != dtype || tensor.NumElements() != shape.NumElements()) {
    return InvalidArgument("the result is ", dtype, " ", shape, ", the destination holds ",
                           tensor.dtype(), " ", tensor.shape());
  }
  return tensor;
}

Status CollectiveCall::Keep() {
  if (destination_.IsNull()) return OkStatus();
  return context_.session.registers().Write(RegisterId::FromPacked(command_.getDestination()),
                                            std::move(destination_));
}

Status CollectiveCall::AllReduce() {
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor source, Source());
  facts_.bytes = source.size_bytes();
  LOCKSTEP_ASSIGN_OR_RETURN(Communicator* const data, DataByAgreement(source));
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor result,
                            Destination(source.dtype(), source.shape(), source.device().type));
  LOCKSTEP_RETURN_IF_ERROR(data->AllReduce(source.buffer(), result.buffer(), op(), deadline()));
  return Keep();
}

Status CollectiveCall::Reduce() {
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor source, Source());
  facts_.bytes = source.size_bytes();
  LOCKSTEP_ASSIGN_OR_RETURN(Communicator* const data, DataByAgreement(source));
  Buffer result;
  Tensor tensor;
  if (IsRoot()) {
    LOCKSTEP_ASSIGN_OR_RETURN(tensor,
                              Destination(source.dtype(), source.shape(), source.device().type));
    result = tensor.buffer();
  }
  LOCKSTEP_RETURN_IF_ERROR(
      data->Reduce(source.buffer(), result, op(), command_.getRoot(), deadline()));
  return Keep();
}

Status CollectiveCall::Broadcast() {
  Tensor source;
  if (IsRoot()) {
    LOCKSTEP_ASSIGN_OR_RETURN(source, Source());
  }
  LOCKSTEP_ASSIGN_OR_RETURN(
      const TensorHeader header,
      BroadcastHeader(*comm_, IsRoot() ? &source : nullptr, command_.getRoot(), deadline()));
  LOCKSTEP_ASSIGN_OR_RETURN(Communicator* const data, DataBy(header.place()));
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor result,
                            Destination(header.dtype(), header.shape(), header.place()));
  facts_.bytes = result.size_bytes();
  LOCKSTEP_RETURN_IF_ERROR(data->Broadcast(IsRoot() ? source.buffer() : Buffer(), result.buffer(),
                                           command_.getRoot(), deadline()));
  return Keep();
}

// What joining the rows of all ranks gives.
struct Joined {
  std::vector<int64_t> counts;
  Shape shape;
};
StatusOr<Joined> JoinRows(Communicator& comm, const Tensor& source, Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<TensorHeader> headers,
                            ExchangeHeaders(comm, source, deadline));
  LOCKSTEP_RETURN_IF_ERROR(CheckSameRows(headers, comm.members()));
  Joined joined;
  int64_t rows = 0;
  for (const TensorHeader& header : headers) {
    joined.counts.push_back(header.shape().NumElements());
    rows += header.shape()[0];
  }
  joined.shape = WithRows(source.shape(), rows);
  return joined;
}

Status CollectiveCall::AllGather() {
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor source, Source());
  LOCKSTEP_ASSIGN_OR_RETURN(const Joined joined, JoinRows(*comm_, source, deadline()));
  LOCKSTEP_ASSIGN_OR_RETURN(Communicator* const data, DataBy(source));
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor result,
                            Destination(source.dtype(), joined.shape, source.device().type));
  facts_.bytes = result.size_bytes();
  LOCKSTEP_RETURN_IF_ERROR(
      data->AllGather(source.buffer(), result.buffer(), joined.counts, deadline()));
  return Keep();
}

Status CollectiveCall::Gather() {
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor source, Source());
  LOCKSTEP_ASSIGN_OR_RETURN(const Joined joined, JoinRows(*comm_, source, deadline()));
  facts_.bytes = SizeInBytes(source.dtype(), joined.shape);
  LOCKSTEP_ASSIGN_OR_RETURN(Communicator* const data, DataBy(source));
  Tensor tensor;
  Buffer result;
  if (IsRoot()) {
    LOCKSTEP_ASSIGN_OR_RETURN(tensor,
                              Destination(source.dtype(), joined.shape, source.device().type));
    result = tensor.buffer();
  }
  LOCKSTEP_RETURN_IF_ERROR(
      data->Gather(source.buffer(), result, joined.counts, command_.getRoot(), deadline()));
  return Keep();
}

Status CollectiveCall::ReduceScatter() {
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor source, Source());
  if (source.shape().ndim() == 0) {
    return InvalidArgument("a scalar has no rows to deal out");
  }
  facts_.bytes = source.size_bytes();
  const int size = comm_->size();
  const int64_t rows = source.shape()[0];
  const std::vector<int64_t> counts = EvenCounts(rows, source.shape().RowElements(), size);
  const Shape shape = WithRows(source.shape(), EvenPart(rows, size, comm_->rank()).count);
  LOCKSTEP_ASSIGN_OR_RETURN(Communicator* const data, DataByAgreement(source));
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor result,
                            Destination(source.dtype(), shape, source.device().type));
  LOCKSTEP_RETURN_IF_ERROR(
      data->ReduceScatter(source.buffer(), result.buffer(), counts, op(), deadline()));
  return Keep();
}

Status CollectiveCall::Scatter() {
  Tensor source;
  if (IsRoot()) {
    LOCKSTEP_ASSIGN_OR_RETURN(source, Source());
  }
  LOCKSTEP_ASSIGN_OR_RETURN(
      const TensorHeader header,
      BroadcastHeader(*comm_, IsRoot() ? &source : nullptr, command_.getRoot(), deadline()));
  const Shape whole = header.shape();
  if (whole.ndim() == 0) return InvalidArgument("a scalar has no rows to deal out");
  facts_.bytes = SizeInBytes(header.dtype(), whole);
  const int size = comm_->size();
  const std::vector<int64_t> counts = EvenCounts(whole[0], whole.RowElements(), size);
  const Shape shape = WithRows(whole, EvenPart(whole[0], size, comm_->rank()).count);
  LOCKSTEP_ASSIGN_OR_RETURN(Communicator* const data, DataBy(header.place()));
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor result,
                            Destination(header.dtype(), shape, header.place()));
  LOCKSTEP_RETURN_IF_ERROR(data->Scatter(IsRoot() ? source.buffer() : Buffer(), result.buffer(),
                                         counts, command_.getRoot(), deadline()));
  return Keep();
}

Status CollectiveCall::AllToAll() {
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor source, Source());
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<TensorHeader> headers,
                            ExchangeHeaders(*comm_, source, deadline()));
  LOCKSTEP_RETURN_IF_ERROR(CheckSameRows(headers, comm_->members()));
  facts_.bytes = source.size_bytes();
  const int size = comm_->size();
  const int64_t row_elements = source.shape().RowElements();
  const std::vector<int64_t> send_counts = EvenCounts(source.shape()[0], row_elements, size);
  std::vector<int64_t> recv_counts;
  int64_t rows = 0;
  for (const TensorHeader& header : headers) {
    const int64_t count = EvenPart(header.shape()[0], size, comm_->rank()).count;
    recv_counts.push_back(count * row_elements);
    rows += count;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(Communicator* const data, DataBy(source));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const Tensor result,
      Destination(source.dtype(), WithRows(source.shape(), rows), source.device().type));
  LOCKSTEP_RETURN_IF_ERROR(
      data->AllToAll(source.buffer(), send_counts, result.buffer(), recv_counts, deadline()));
  return Keep();
}

Status CollectiveCall::SendTensor(Rank to) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor source, Source());
  facts_.bytes = source.size_bytes();
  facts_.backend = comm_->backend();
  TensorHeader header(source);
  LOCKSTEP_RETURN_IF_ERROR(comm_->Send(header.buffer(), to, deadline()));
  LOCKSTEP_ASSIGN_OR_RETURN(Communicator* const data, DataBy(source));
  return data->Send(source.buffer(), to, deadline());
}

Status CollectiveCall::ReceiveTensor(Rank from) {
  TensorHeader header;
  LOCKSTEP_RETURN_IF_ERROR(comm_->Recv(header.buffer(), from, deadline()));
  LOCKSTEP_RETURN_IF_ERROR(header.Validate());
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor result,
                            Destination(header.dtype(), header.shape(), header.place()));
  facts_.bytes = result.size_bytes();
  facts_.backend = comm_->backend();
  LOCKSTEP_ASSIGN_OR_RETURN(Communicator* const data, DataBy(header.place()));
  LOCKSTEP_RETURN_IF_ERROR(data->Recv(result.buffer(), from, deadline()));
  return Keep();
}

Status CollectiveCall::Transfer() {
  const Rank from = command_.getRoot();
  const Rank to = command_.getPeer();
  if (to < 0 || to >= comm_->size() || to == from) {
    return InvalidArgument("rank ", from, " cannot send to rank ", to);
  }
  if (comm_->rank() == from) return SendTensor(to);
  if (comm_->rank() == to) return ReceiveTensor(from);
  return OkStatus();
}

Status CollectiveCall::SendToNextGroup() {
  const int group_size = context_.world_size / context_.session.num_groups();
  const Rank to = context_.rank + group_size;
  return to < context_.world_size ? SendTensor(to) : OkStatus();
}

Status CollectiveCall::ReceiveFromPreviousGroup() {
  const int group_size = context_.world_size / context_.session.num_groups();
  const Rank from = context_.rank - group_size;
  return from >= 0 ? ReceiveTensor(from) : OkStatus();
}

}  // namespace

Status ExecuteCollective(const CollectiveContext& context,
                         wire::Command::Collective::Reader command, CollectiveOutcome* outcome) {
  CollectiveCall call(context, command);
  const Status status = call.Execute();
  if (!status.ok()) call.DropDestination();
  if (outcome != nullptr) *outcome = call.outcome();
  return status;
}

}  // namespace lockstep::worker
