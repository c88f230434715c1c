// What a session does with tensors that lie in memory which it shares with worker-0.
#pragma once

#include <mutex>
#include <optional>

#include "runtime/base/dtype.h"
#include "runtime/base/operations.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/client/bulk_copy.h"
#include "runtime/client/dref.h"
#include "runtime/client/session.h"
#include "runtime/client/session_core.h"
#include "runtime/client/shared_tensor.h"
#include "runtime/client/whole_tensors.h"
#include "runtime/plan/layout.h"

namespace lockstep::client {

// Errors and waits are those of the calls of Session that do the same.
//
// Threads: safe. Ownership: all three are borrowed.
class HostTensors {
 public:
  HostTensors(SessionCore& core, BulkCopier& bulk, WholeTensors& tensors)
      : core_(core), bulk_(bulk), tensors_(tensors) {}

  StatusOr<SharedTensor> Make(const Shape& shape, DType dtype);
  StatusOr<SharedTensor> MoveFromWorker0(DRef from);

  // These take `from` if they return OK, and leave it as it was if not.
  StatusOr<DRef> MoveToWorker0(SharedTensor&& from);
  // A broadcast or a scatter. kInvalidArgument: worker-0 is not the first rank of all that take
  // part.
  StatusOr<DRef> DealOut(OperationKind kind, SharedTensor&& from, const CollectiveOptions& options);
  StatusOr<DRef> Place(SharedTensor&& from, const plan::Layout& layout);

 private:
  // Where worker-0 has the elements of a host tensor that is about to be handed over.
  struct HandOver {
    DRef ref;
    RegisterId loan = {};  // which is to end; none: they were copied there
  };
  // Of one that is not null.
  StatusOr<HandOver> Prepare(const SharedTensor& from);
  // Has worker-0 lend what the command says that `fill` writes, which is told `*name`: a new one.
  template <typename Fill>
  StatusOr<BorrowedTensor> Borrow(DRef* name, Fill fill);
  // It was handed over.
  void Finish(SharedTensor from);
  Status CheckHeld(const SharedTensor& tensor) const;
  // `lent` is the register's that `ref` names; `loan` is null where that is the loan's name, too.
  static SharedTensor Wrap(BorrowedTensor lent, DRef ref, DRef loan);
  static StatusOr<SharedTensor> MakeOwn(const Shape& shape, DType dtype);
  // What was seen when it was asked.
  bool LendsNothing(const SessionCore::WorkerZero& worker);
  // Of a tensor that is lent by this session's worker-0, as it is now, and sure to be in its
  // register yet.
  bool IsLentHere(const SharedTensor& tensor);

  SessionCore& core_;
  BulkCopier& bulk_;
  WholeTensors& tensors_;
  std::mutex mutex_;
  std::optional<SessionCore::WorkerZero> lends_nothing_;  // it need not be asked again
};

}  // namespace lockstep::client
