// The kernels of kernels.cu as the fake GPU runs them.
#include "tests/fakes/cuda/host_kernels.h"

#include "tests/cuda_fragments/kernels.cu"

FAKE_CUDA_FUNCTION(scale);
FAKE_CUDA_FUNCTION(sum);
FAKE_CUDA_FUNCTION(scores);
FAKE_CUDA_FUNCTION(places);
FAKE_CUDA_FUNCTION(repeat);
FAKE_CUDA_FUNCTION(crash);
