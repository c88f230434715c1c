// The block's arithmetic on GPUs. bodies.h says what each kernel does.
#include "examples/tensor_parallel/bodies.h"

using namespace lockstep::examples::tensor_parallel;

LOCKSTEP_KERNEL(transformer_layer_norm, LayerNorm)
LOCKSTEP_KERNEL(transformer_project_to_part, ProjectToPart)
LOCKSTEP_KERNEL(transformer_project_from_part, ProjectFromPart)
LOCKSTEP_KERNEL(transformer_attention, Attention)
LOCKSTEP_KERNEL(transformer_gelu, Gelu)
LOCKSTEP_KERNEL(transformer_add_bias_and_residual, AddBiasAndResidual)
LOCKSTEP_KERNEL(transformer_max_abs_difference, MaxAbsDifference)
