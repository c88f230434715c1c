// The tables there may be. The last two exist on x86-64 only.
#pragma once

#include "runtime/collective/kernels/kernels.h"

namespace lockstep::collective::kernels {

extern const Table kGenericTable;
extern const Table kAVX2Table;
extern const Table kAVX512Table;

}  // namespace lockstep::collective::kernels
