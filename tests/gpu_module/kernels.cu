#include "tests/gpu_module/bodies.h"

LOCKSTEP_KERNEL(test_scale, lockstep::testing::Scale)
LOCKSTEP_KERNEL(test_spin, lockstep::testing::Spin)
LOCKSTEP_KERNEL(test_illegal_address, lockstep::testing::IllegalAddress)
