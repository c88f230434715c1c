// The kernels of the examples, as examples/*/kernels.cu has them.
#include "examples/digits/batches.h"
#include "examples/digits/bodies.h"
#include "examples/tensor_parallel/bodies.h"
#include "tests/fakes/cuda/fake_cuda.h"

using namespace lockstep::examples;

FAKE_CUDA_KERNEL(digits_deal_batches, digits::DealBatches);
FAKE_CUDA_KERNEL(digits_list_batch, digits::ListBatch);
FAKE_CUDA_KERNEL(digits_differentiate, digits::Differentiate);
FAKE_CUDA_KERNEL(digits_sum_gradient, digits::SumGradient);
FAKE_CUDA_KERNEL(digits_step, digits::Step);
FAKE_CUDA_KERNEL(digits_classify, digits::Classify);
FAKE_CUDA_KERNEL(digits_count_right, digits::CountRight);

FAKE_CUDA_KERNEL(transformer_layer_norm, tensor_parallel::LayerNorm);
FAKE_CUDA_KERNEL(transformer_project_to_part, tensor_parallel::ProjectToPart);
FAKE_CUDA_KERNEL(transformer_project_from_part, tensor_parallel::ProjectFromPart);
FAKE_CUDA_KERNEL(transformer_attention, tensor_parallel::Attention);
FAKE_CUDA_KERNEL(transformer_gelu, tensor_parallel::Gelu);
FAKE_CUDA_KERNEL(transformer_add_bias_and_residual, tensor_parallel::AddBiasAndResidual);
FAKE_CUDA_KERNEL(transformer_max_abs_difference, tensor_parallel::MaxAbsDifference);
