// What a session does with tensors that lie on the workers by a layout.
#pragma once

#include "runtime/base/dtype.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/client/dref.h"
#include "runtime/client/session_core.h"
#include "runtime/plan/layout.h"

namespace lockstep::client {

// All of a tensor on worker-0.
StatusOr<plan::Layout> OnWorker0(const Shape& shape, DType dtype);

// kInvalidArgument if the layout's mesh names ranks that there are not, or it is not one of a
// tensor of this shape and dtype.
Status CheckLayout(const SessionCore& core, const plan::Layout& layout, const Shape& shape,
                   DType dtype);

// What a tensor is moved for: the bytes that inputs of fragments need are counted.
enum class MovedFor { kProgram, kFragment };

// The tensor in `source`, whose layout is known or kInvalidArgument says how to say it, in another
// layout. `loan`: under which worker-0 has lent the source, if it has. The errors of CheckLayout()
// and of SessionCore::IssueOperation().
StatusOr<DRef> IssueReshard(SessionCore& core, const DRef& source, const plan::Layout& to,
                            MovedFor use = MovedFor::kProgram, RegisterId loan = {});

// The layout of `ref`, of this session. The workers are asked, and waited for, if another client
// has made it. kInvalidArgument: it was not said.
StatusOr<plan::Layout> KnownLayout(SessionCore& core, const DRef& ref);

// `ref`, of this session, lies by `layout` from now on, here and on the workers.
Status IssueDeclareLayout(SessionCore& core, const DRef& ref, const plan::Layout& layout);
// `ref`, of this session, is about to be written to: its layout is known neither here nor on the
// workers any more. No command, where none was.
Status ForgetLayout(SessionCore& core, const DRef& ref);

}  // namespace lockstep::client
