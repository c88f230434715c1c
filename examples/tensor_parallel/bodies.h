// The arithmetic of a transformer block: f32 in memory, sums in double. One piece of it after the
// other for hosts and GPUs (runtime/base/kernel.h); how many pieces there are,
// pieces() says. A host and a GPU add up in the same order: results differ where their exp() and
// erf() do.
//
// Matrices are row-major. A row of an activation is a token; `tokens` = batch x sequence, the
// sequences one after the other. All memory is borrowed; outputs overlap no inputs unless said.
#pragma once

#include <cmath>
#include <cstdint>

#include "runtime/base/kernel.h"

namespace lockstep::examples::tensor_parallel {

// Eight sums side by side: the compiler may not reorder one sum, but it can vectorise eight.
LOCKSTEP_HOST_DEVICE inline double Dot(const float* a, const float* b, int64_t count) {
  constexpr int kLanes = 8;
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += static_cast<double>(a[i + lane]) * b[i + lane];
    }
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  for (; i < count; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

// out[t] = (x[t] - mean) / sqrt(variance + 1e-5) * gain + bias, over the `width` elements of a
// token.
struct LayerNorm {
  static constexpr char kName[] = "transformer_layer_norm";
  const float* x;
  const float* gain;
  const float* bias;
  int64_t tokens;
  int64_t width;
  float* out;

  int64_t pieces() const { return tokens; }
  LOCKSTEP_HOST_DEVICE void Run(int64_t first, int64_t step) const {
    for (int64_t t = first; t < tokens; t += step) Normalise(x + t * width, out + t * width);
  }
  LOCKSTEP_HOST_DEVICE void Normalise(const float* from, float* to) const {
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += from[i];
    const double mean = sum / static_cast<double>(width);
    double squares = 0;
    for (int64_t i = 0; i < width; ++i) squares += (from[i] - mean) * (from[i] - mean);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + 1e-5);
    for (int64_t i = 0; i < width; ++i) {
      to[i] = static_cast<float>((from[i] - mean) * scale * gain[i] + bias[i]);
    }
  }
};

// out [tokens][outputs] = x [tokens][inputs] * weights^T + bias, weights [outputs][inputs].
// Rows of `weights` are output features: a worker that has some of them makes those columns of
// `out`.
struct ProjectToPart {
  static constexpr char kName[] = "transformer_project_to_part";
  const float* x;
  const float* weights;
  const float* bias;
  int64_t tokens;
  int64_t inputs;
  int64_t outputs;
  float* out;

  int64_t pieces() const { return tokens * outputs; }
  LOCKSTEP_HOST_DEVICE void Run(int64_t first, int64_t step) const {
    for (int64_t at = first; at < tokens * outputs; at += step) {
      const int64_t t = at / outputs;
      const int64_t o = at % outputs;
      out[at] = static_cast<float>(Dot(x + t * inputs, weights + o * inputs, inputs) + bias[o]);
    }
  }
};

// out [tokens][outputs] = x [tokens][inputs] * weights, weights [inputs][outputs].
// Rows of `weights` are input features: a worker that has some of them makes a summand of `out`.
struct ProjectFromPart {
  static constexpr char kName[] = "transformer_project_from_part";
  // So many outputs are summed side by side, for the host to vectorise.
  static constexpr int64_t kTile = 16;
  const float* x;
  const float* weights;
  int64_t tokens;
  int64_t inputs;
  int64_t outputs;
  float* out;

  LOCKSTEP_HOST_DEVICE int64_t tiles() const { return (outputs + kTile - 1) / kTile; }
  int64_t pieces() const { return tokens * tiles(); }
  LOCKSTEP_HOST_DEVICE void Run(int64_t first, int64_t step) const {
    for (int64_t at = first; at < tokens * tiles(); at += step) {
      const int64_t t = at / tiles();
      const int64_t o = at % tiles() * kTile;
      const bool is_whole = o + kTile <= outputs;
      SumTile(x + t * inputs, weights + o, is_whole ? kTile : outputs - o, out + t * outputs + o);
    }
  }
  LOCKSTEP_HOST_DEVICE void SumTile(const float* token, const float* column, int64_t width,
                                    float* to) const {
    double sums[kTile] = {};
    for (int64_t i = 0; i < inputs; ++i) {
      const double factor = token[i];
      const float* row = column + i * outputs;
      if (width == kTile) {
        for (int64_t o = 0; o < kTile; ++o) sums[o] += factor * row[o];
      } else {
        for (int64_t o = 0; o < width; ++o) sums[o] += factor * row[o];
      }
    }
    for (int64_t o = 0; o < width; ++o) to[o] = static_cast<float>(sums[o]);
  }
};

// Causal self-attention for `heads` heads. qkv [tokens][heads][3][head_dim] has a head's query, key
// and value side by side; out [tokens][heads][head_dim]. A token sees itself and those before it in
// its own sequence; `sequence` divides `tokens`. `scratch` is [tokens][heads][sequence] on GPUs,
// and [sequence] is enough where all is done in one turn.
struct Attention {
  static constexpr char kName[] = "transformer_attention";
  const float* qkv;
  int64_t tokens;
  int64_t sequence;
  int64_t heads;
  int64_t head_dim;
  double* scratch;
  float* out;

  int64_t pieces() const { return tokens * heads; }
  LOCKSTEP_HOST_DEVICE void Run(int64_t first, int64_t step) const {
    for (int64_t at = first; at < tokens * heads; at += step) {
      // Each thread has one row of the scratch memory.
      Attend(at / heads, at % heads, scratch + first * sequence, out + at * head_dim);
    }
  }
  LOCKSTEP_HOST_DEVICE void Attend(int64_t t, int64_t h, double* scores, float* to) const {
    const int64_t stride = heads * 3 * head_dim;
    const int64_t begin = t - t % sequence;  // the sequence's first token
    const int64_t seen = t - begin + 1;
    const float* query = qkv + t * stride + h * 3 * head_dim;
    const float* keys = qkv + begin * stride + h * 3 * head_dim + head_dim;
    const float* values = keys + head_dim;
    const double scale = 1 / std::sqrt(static_cast<double>(head_dim));
    double largest = -HUGE_VAL;
    for (int64_t j = 0; j < seen; ++j) {
      scores[j] = scale * Dot(query, keys + j * stride, head_dim);
      if (scores[j] > largest) largest = scores[j];
    }
    // Without the largest, exp() could overflow.
    double sum = 0;
    for (int64_t j = 0; j < seen; ++j) sum += scores[j] = std::exp(scores[j] - largest);
    for (int64_t j = 0; j < seen; ++j) scores[j] /= sum;
    for (int64_t i = 0; i < head_dim; ++i) {
      double mixed = 0;
      for (int64_t j = 0; j < seen; ++j) mixed += scores[j] * values[j * stride + i];
      to[i] = static_cast<float>(mixed);
    }
  }
};

// out = x * Phi(x), Phi the normal distribution (Hendrycks and Gimpel, arXiv:1606.08415, exact
// form). `out` may be `x`.
struct Gelu {
  static constexpr char kName[] = "transformer_gelu";
  const float* x;
  int64_t size;
  float* out;

  int64_t pieces() const { return size; }
  LOCKSTEP_HOST_DEVICE void Run(int64_t first, int64_t step) const {
    constexpr double kSqrtHalf = 0.70710678118654752440;
    for (int64_t i = first; i < size; i += step) {
      out[i] = static_cast<float>(0.5 * x[i] * (1 + std::erf(x[i] * kSqrtHalf)));
    }
  }
};

// out[t] = x[t] + bias + residual[t]. `out` may be `x` or `residual`.
struct AddBiasAndResidual {
  static constexpr char kName[] = "transformer_add_bias_and_residual";
  const float* x;
  const float* bias;
  const float* residual;
  int64_t tokens;
  int64_t width;
  float* out;

  int64_t pieces() const { return tokens * width; }
  LOCKSTEP_HOST_DEVICE void Run(int64_t first, int64_t step) const {
    for (int64_t at = first; at < tokens * width; at += step) {
      out[at] = x[at] + bias[at % width] + residual[at];
    }
  }
};

// out[0] = the largest |a[i] - b[i]|; 0 for nothing; not a number if any element is not. One piece:
// it is for checking, not for speed.
struct MaxAbsDifference {
  static constexpr char kName[] = "transformer_max_abs_difference";
  const float* a;
  const float* b;
  int64_t size;
  float* out;

  int64_t pieces() const { return 1; }
  LOCKSTEP_HOST_DEVICE void Run(int64_t first, int64_t) const {
    if (first != 0) return;
    float largest = 0;
    for (int64_t i = 0; i < size && !std::isnan(largest); ++i) {
      const float difference = std::fabs(a[i] - b[i]);
      // Takes what is not a number, too.
      if (!(difference <= largest)) largest = difference;
    }
    out[0] = largest;
  }
};

}  // namespace lockstep::examples::tensor_parallel
