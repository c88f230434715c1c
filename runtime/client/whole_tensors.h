// What a session does with whole tensors of its client's: they lie on worker-0, or are dealt out to
// the workers, and come back.
#pragma once

#include "runtime/base/dtype.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/client/bulk_copy.h"
#include "runtime/client/dref.h"
#include "runtime/client/layout_commands.h"
#include "runtime/client/session_core.h"
#include "runtime/control/value.h"
#include "runtime/fragment/split.h"
#include "runtime/plan/layout.h"

namespace lockstep::client {

// Errors and waits are those of the calls of Session that have these names.
//
// Threads: safe. Ownership: both are borrowed.
class WholeTensors {
 public:
  WholeTensors(SessionCore& core, BulkCopier& bulk) : core_(core), bulk_(bulk) {}

  Status CopyToWorker0(const DRef& to, ConstBuffer from);
  StatusOr<DRef> CopyToWorker0(const Shape& shape, ConstBuffer from);
  StatusOr<DRef> CopyToWorker0(const HostTensor& from);

  StatusOr<DRef> Place(const HostTensor& tensor, const plan::Layout& layout, MovedFor use);
  StatusOr<DRef> Place(const HostTensor& tensor, fragment::Split split);
  StatusOr<HostTensor> Collect(const DRef& ref);

 private:
  SessionCore& core_;
  BulkCopier& bulk_;
};

}  // namespace lockstep::client
