// The kernels that runtime/cuda launches. bodies.h says what each does.
#include "runtime/base/kernel.h"
#include "runtime/cuda/kernels/bodies.h"

LOCKSTEP_KERNEL(lockstep_fill, lockstep::cuda::Fill)
LOCKSTEP_KERNEL(lockstep_arange, lockstep::cuda::Arange)
LOCKSTEP_KERNEL(lockstep_cast, lockstep::cuda::Cast)
