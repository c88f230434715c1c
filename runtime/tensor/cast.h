// Conversion of whole buffers from one dtype to another.
#pragma once

#include "runtime/base/buffer.h"

namespace lockstep::tensor {

// Converts every element of `from` into `to` by the rules of ConvertElement() (element.h).
// `to.count` elements are written; `from` has as many. The memory does not overlap.
void CastElements(ConstBuffer from, Buffer to);

}  // namespace lockstep::tensor
