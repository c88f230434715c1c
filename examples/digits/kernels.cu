// The network's arithmetic on GPUs. bodies.h and batches.h say what each kernel does.
#include "examples/digits/batches.h"
#include "examples/digits/bodies.h"

using namespace lockstep::examples::digits;

LOCKSTEP_KERNEL(digits_deal_batches, DealBatches)
LOCKSTEP_KERNEL(digits_list_batch, ListBatch)
LOCKSTEP_KERNEL(digits_differentiate, Differentiate)
LOCKSTEP_KERNEL(digits_sum_gradient, SumGradient)
LOCKSTEP_KERNEL(digits_step, Step)
LOCKSTEP_KERNEL(digits_classify, Classify)
LOCKSTEP_KERNEL(digits_count_right, CountRight)
