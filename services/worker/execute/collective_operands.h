// What a collective command works on: the tensors in its registers, and the communicator that moves
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/base/device.h"
#include "runtime/base/dtype.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/collective/communicator.h"
#include "runtime/collective/device.h"
#include "runtime/tensor/tensor.h"
#include "schemas/control.capnp.h"
#include "services/worker/execute/collective_command.h"
#include "services/worker/execute/communicator_cache.h"
#include "services/worker/report/transfer_counts.h"

namespace lockstep::worker {

// Of one command on this rank. Everything is borrowed.
class CollectiveOperands {
 public:
  // `facts` are told what backend data goes by, where that is not the CPUs'.
  CollectiveOperands(const CollectiveContext& context, wire::Command::Collective::Reader command,
                     CollectiveFacts& facts)
      : context_(context), command_(command), facts_(facts) {}

  // Connects the ranks that take part. Before what follows.
  void SetTeam(const Communicators& team) { team_ = &team; }

  // The tensor in the source register.
  StatusOr<tensor::Tensor> Source() const { return TensorIn(command_.getSource(), "source"); }
  // The tensor that receives: a new one, or the one in the destination register, which must have
  // that dtype and number of elements. A new one is held for Keep().
  StatusOr<tensor::Tensor> Destination(DType dtype, const Shape& shape, DeviceType place);
  // The same, of the root of a broadcast that gives its source away: `source` itself becomes the
  // result, and Keep() takes it out of the source register.
  const tensor::Tensor& DestinationFromSource(const tensor::Tensor& source) {
    takes_source_ = true;
    return destination_ = source;
  }
  // How many elements the tensor in the destination register has; none if a new one is to be made.
  StatusOr<std::optional<int64_t>> DestinationElements() const;
  // Puts a new destination into its register, now that it holds the result.
  Status Keep();
  // After a failure: what a peer may still write to does not become a value again by a reset.
  void DropDestination();

  // The communicator for data that lies there.
  StatusOr<collective::Communicator*> DataBy(DeviceType place);
  StatusOr<collective::Communicator*> DataBy(const tensor::Tensor& tensor) {
    return DataBy(tensor.device().type);
  }
  // The same before an operation whose ranks have not told each other yet where their data lies.
  StatusOr<collective::Communicator*> DataByAgreement(const tensor::Tensor& tensor);

  // Where data goes on on a GPU; null: none went there.
  std::shared_ptr<collective::DeviceConnection> connection() const {
    return by_gpus_ ? team_->gpus->connection() : nullptr;
  }

 private:
  StatusOr<tensor::Tensor> TensorIn(uint64_t packed, const char* role) const;

  const CollectiveContext& context_;
  const wire::Command::Collective::Reader command_;
  CollectiveFacts& facts_;
  const Communicators* team_ = nullptr;
  collective::Communicator* data_ = nullptr;  // the last that data went by; null: none did
  tensor::Tensor destination_;
  bool takes_source_ = false;  // `destination_` is what the source register holds
  bool by_gpus_ = false;       // some data went by them
};

}  // namespace lockstep::worker
