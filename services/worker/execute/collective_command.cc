#include "services/worker/execute/collective_command.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/shape.h"
#include "runtime/tensor/tensor.h"
#include "services/worker/execute/collective_operands.h"
#include "services/worker/execute/team.h"
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
  // After a failure.
  void DropDestination() { operands_.DropDestination(); }
  CollectiveOutcome outcome() const { return {facts_, operands_.connection()}; }

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

  Status SendTensor(Rank to);
  Status ReceiveTensor(Rank from);
  Status DoSend(Rank to);
  Status DoReceive(Rank from);
  // The error for want of `peer`, which is to come to the half that is missing, with both ranks.
  Status NamePair(const Status& status, const char* does, Rank peer, const char* missing) const;

  bool IsRoot() const { return comm_->rank() == command_.getRoot(); }
  ReduceOp op() const { return static_cast<ReduceOp>(command_.getOp()); }
  Deadline deadline() const { return context_.deadline; }

  const CollectiveContext& context_;
  const wire::Command::Collective::Reader command_;
  Communicator* comm_ = nullptr;  // the CPUs', for what the ranks tell each other
  CollectiveFacts facts_;
  CollectiveOperands operands_{context_, command_, facts_};
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
      const Communicators* const connected,
      context_.session.CommunicatorsOf(team, members, context_.world, context_.deadline));
  operands_.SetTeam(*connected);
  comm_ = connected->cpus.get();
  if (members.empty()) return OkStatus();
  if (command_.getRoot() < 0 || command_.getRoot() >= static_cast<int>(members.size())) {
    return InvalidArgument("the root ", command_.getRoot(), " is not among the ", members.size(),
                           " ranks of the collective");
  }
  const bool is_message = IsMessage(command_.getKind());
  if (!is_message) facts_.backend = comm_->backend();
  // In a message, only who sends or receives it has a part.
  if (is_message && connected->gpus != nullptr) {
    LOCKSTEP_RETURN_IF_ERROR(connected->gpus->Connect(deadline()));
  }
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

Status CollectiveCall::AllReduce() {
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor source, operands_.Source());
  facts_.bytes = source.size_bytes();
  LOCKSTEP_ASSIGN_OR_RETURN(Communicator* const data, operands_.DataByAgreement(source));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const Tensor result,
      operands_.Destination(source.dtype(), source.shape(), source.device().type));
  LOCKSTEP_RETURN_IF_ERROR(data->AllReduce(source.buffer(), result.buffer(), op(), deadline()));
  return operands_.Keep();
}

Status CollectiveCall::Reduce() {
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor source, operands_.Source());
  facts_.bytes = source.size_bytes();
  LOCKSTEP_ASSIGN_OR_RETURN(Communicator* const data, operands_.DataByAgreement(source));
  Buffer result;
  Tensor tensor;
  if (IsRoot()) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        tensor, operands_.Destination(source.dtype(), source.shape(), source.device().type));
    result = tensor.buffer();
  }
  LOCKSTEP_RETURN_IF_ERROR(
      data->Reduce(source.buffer(), result, op(), command_.getRoot(), deadline()));
  return operands_.Keep();
}

Status CollectiveCall::Broadcast() {
  Tensor source;
  if (IsRoot()) {
    LOCKSTEP_ASSIGN_OR_RETURN(source, operands_.Source());
  }
  LOCKSTEP_ASSIGN_OR_RETURN(
      const TensorHeader header,
      BroadcastHeader(*comm_, IsRoot() ? &source : nullptr, command_.getRoot(), deadline()));
  LOCKSTEP_ASSIGN_OR_RETURN(Communicator* const data, operands_.DataBy(header.place()));
  Tensor result;
  if (IsRoot() && command_.getGivesSource() && command_.getMakeDestination()) {
    result = operands_.DestinationFromSource(source);
  } else {
    LOCKSTEP_ASSIGN_OR_RETURN(
        result, operands_.Destination(header.dtype(), header.shape(), header.place()));
  }
  facts_.bytes = result.size_bytes();
  LOCKSTEP_RETURN_IF_ERROR(data->Broadcast(IsRoot() ? source.buffer() : Buffer(), result.buffer(),
                                           command_.getRoot(), deadline()));
  return operands_.Keep();
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
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor source, operands_.Source());
  LOCKSTEP_ASSIGN_OR_RETURN(const Joined joined, JoinRows(*comm_, source, deadline()));
  LOCKSTEP_ASSIGN_OR_RETURN(Communicator* const data, operands_.DataBy(source));
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor result, operands_.Destination(source.dtype(), joined.shape,
                                                                       source.device().type));
  facts_.bytes = result.size_bytes();
  LOCKSTEP_RETURN_IF_ERROR(
      data->AllGather(source.buffer(), result.buffer(), joined.counts, deadline()));
  return operands_.Keep();
}

Status CollectiveCall::Gather() {
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor source, operands_.Source());
  LOCKSTEP_ASSIGN_OR_RETURN(const Joined joined, JoinRows(*comm_, source, deadline()));
  facts_.bytes = SizeInBytes(source.dtype(), joined.shape);
  LOCKSTEP_ASSIGN_OR_RETURN(Communicator* const data, operands_.DataBy(source));
  Tensor tensor;
  Buffer result;
  if (IsRoot()) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        tensor, operands_.Destination(source.dtype(), joined.shape, source.device().type));
    result = tensor.buffer();
  }
  LOCKSTEP_RETURN_IF_ERROR(
      data->Gather(source.buffer(), result, joined.counts, command_.getRoot(), deadline()));
  return operands_.Keep();
}

Status CollectiveCall::ReduceScatter() {
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor source, operands_.Source());
  if (source.shape().ndim() == 0) {
    return InvalidArgument("a scalar has no rows to deal out");
  }
  facts_.bytes = source.size_bytes();
  const int size = comm_->size();
  const int64_t rows = source.shape()[0];
  const std::vector<int64_t> counts = EvenCounts(rows, source.shape().RowElements(), size);
  const Shape shape = WithRows(source.shape(), EvenPart(rows, size, comm_->rank()).count);
  LOCKSTEP_ASSIGN_OR_RETURN(Communicator* const data, operands_.DataByAgreement(source));
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor result,
                            operands_.Destination(source.dtype(), shape, source.device().type));
  LOCKSTEP_RETURN_IF_ERROR(
      data->ReduceScatter(source.buffer(), result.buffer(), counts, op(), deadline()));
  return operands_.Keep();
}

Status CollectiveCall::Scatter() {
  Tensor source;
  if (IsRoot()) {
    LOCKSTEP_ASSIGN_OR_RETURN(source, operands_.Source());
  }
  LOCKSTEP_ASSIGN_OR_RETURN(
      const TensorHeader header,
      BroadcastHeader(*comm_, IsRoot() ? &source : nullptr, command_.getRoot(), deadline()));
  const Shape whole = header.shape();
  if (whole.ndim() == 0) return InvalidArgument("a scalar has no rows to deal out");
  facts_.bytes = SizeInBytes(header.dtype(), whole);
  const int size = comm_->size();
  std::vector<int64_t> counts = EvenCounts(whole[0], whole.RowElements(), size);
  Shape shape = WithRows(whole, EvenPart(whole[0], size, comm_->rank()).count);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<int64_t> wanted, operands_.DestinationElements());
  if (wanted.has_value() && *wanted != shape.NumElements() &&
      *wanted * size == whole.NumElements()) {
    // Destinations that hold equal parts, though rows cannot be dealt out equally.
    counts.assign(static_cast<size_t>(size), *wanted);
    shape = Shape({*wanted});
  }
  LOCKSTEP_ASSIGN_OR_RETURN(Communicator* const data, operands_.DataBy(header.place()));
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor result,
                            operands_.Destination(header.dtype(), shape, header.place()));
  LOCKSTEP_RETURN_IF_ERROR(data->Scatter(IsRoot() ? source.buffer() : Buffer(), result.buffer(),
                                         counts, command_.getRoot(), deadline()));
  return operands_.Keep();
}

Status CollectiveCall::AllToAll() {
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor source, operands_.Source());
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
  LOCKSTEP_ASSIGN_OR_RETURN(Communicator* const data, operands_.DataBy(source));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const Tensor result,
      operands_.Destination(source.dtype(), WithRows(source.shape(), rows), source.device().type));
  LOCKSTEP_RETURN_IF_ERROR(
      data->AllToAll(source.buffer(), send_counts, result.buffer(), recv_counts, deadline()));
  return operands_.Keep();
}

Status CollectiveCall::SendTensor(Rank to) {
  return NamePair(DoSend(to), " sends to rank ", to, "receive");
}

Status CollectiveCall::ReceiveTensor(Rank from) {
  return NamePair(DoReceive(from), " receives from rank ", from, "send");
}

Status CollectiveCall::NamePair(const Status& status, const char* does, Rank peer,
                                const char* missing) const {
  const bool is_for_want =
      status.code() == StatusCode::kDeadlineExceeded || status.code() == StatusCode::kUnavailable;
  if (!is_for_want) [[likely]]
    return status;
  return Annotate(status, "rank " + std::to_string(context_.rank) + does + std::to_string(peer) +
                              ", which has not come to its " + missing);
}

Status CollectiveCall::DoSend(Rank to) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor source, operands_.Source());
  facts_.bytes = source.size_bytes();
  facts_.backend = comm_->backend();
  TensorHeader header(source);
  LOCKSTEP_RETURN_IF_ERROR(comm_->Send(header.buffer(), to, deadline()));
  LOCKSTEP_ASSIGN_OR_RETURN(Communicator* const data, operands_.DataBy(source));
  return data->Send(source.buffer(), to, deadline());
}

Status CollectiveCall::DoReceive(Rank from) {
  TensorHeader header;
  LOCKSTEP_RETURN_IF_ERROR(comm_->Recv(header.buffer(), from, deadline()));
  LOCKSTEP_RETURN_IF_ERROR(header.Validate());
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor result,
                            operands_.Destination(header.dtype(), header.shape(), header.place()));
  facts_.bytes = result.size_bytes();
  facts_.backend = comm_->backend();
  LOCKSTEP_ASSIGN_OR_RETURN(Communicator* const data, operands_.DataBy(header.place()));
  LOCKSTEP_RETURN_IF_ERROR(data->Recv(result.buffer(), from, deadline()));
  return operands_.Keep();
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
