// The arithmetic of a transformer block, in plain C++: f32 in memory, sums in double.
//
// Matrices are row-major. A row of an activation is a token; `tokens` = batch x sequence, the
// sequences one after the other. All memory is borrowed; outputs overlap no inputs unless said.
#pragma once

#include <cstdint>

namespace lockstep::examples::tensor_parallel {

// out[t] = (x[t] - mean) / sqrt(variance + 1e-5) * gain + bias, over the `width` elements of a
// token.
void LayerNorm(const float* x, const float* gain, const float* bias, int64_t tokens, int64_t width,
               float* out);

// out [tokens][outputs] = x [tokens][inputs] * weights^T + bias, weights [outputs][inputs].
// Rows of `weights` are output features: a worker that has some of them makes those columns of
// `out`.
void ProjectToPart(const float* x, const float* weights, const float* bias, int64_t tokens,
                   int64_t inputs, int64_t outputs, float* out);

// out [tokens][outputs] = x [tokens][inputs] * weights, weights [inputs][outputs].
// Rows of `weights` are input features: a worker that has some of them makes a summand of `out`.
void ProjectFromPart(const float* x, const float* weights, int64_t tokens, int64_t inputs,
                     int64_t outputs, float* out);

// Causal self-attention for `heads` heads. qkv [tokens][heads][3][head_dim] has a head's query, key
// and value side by side; out [tokens][heads][head_dim]. A token sees itself and those before it in
// its own sequence; `sequence` divides `tokens`.
void Attention(const float* qkv, int64_t tokens, int64_t sequence, int64_t heads, int64_t head_dim,
               float* out);

// out = x * Phi(x), Phi the normal distribution (Hendrycks and Gimpel, arXiv:1606.08415, exact
// form). `out` may be `x`.
void Gelu(const float* x, int64_t count, float* out);

// out[t] = x[t] + bias + residual[t]. `out` may be `x` or `residual`.
void AddBiasAndResidual(const float* x, const float* bias, const float* residual, int64_t tokens,
                        int64_t width, float* out);

// The largest |a[i] - b[i]|; 0 for nothing; not a number if any element is not.
float MaxAbsDifference(const float* a, const float* b, int64_t count);

}  // namespace lockstep::examples::tensor_parallel
