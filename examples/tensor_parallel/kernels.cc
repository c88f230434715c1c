#include "examples/tensor_parallel/kernels.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace lockstep::examples::tensor_parallel {
namespace {

// Eight sums side by side: the compiler may not reorder one sum, but it can vectorise eight.
double Dot(const float* a, const float* b, int64_t count) {
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

// weights[j] = exp(scores[j]) / their sum; the largest score is taken off so that none overflows.
void Softmax(double* scores, int64_t count) {
  const double largest = *std::max_element(scores, scores + count);
  double sum = 0;
  for (int64_t j = 0; j < count; ++j) sum += scores[j] = std::exp(scores[j] - largest);
  for (int64_t j = 0; j < count; ++j) scores[j] /= sum;
}

}  // namespace

void LayerNorm(const float* x, const float* gain, const float* bias, int64_t tokens, int64_t width,
               float* out) {
  constexpr double kEpsilon = 1e-5;
  for (int64_t t = 0; t < tokens; ++t, x += width, out += width) {
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += x[i];
    const double mean = sum / static_cast<double>(width);
    double squares = 0;
    for (int64_t i = 0; i < width; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + kEpsilon);
    for (int64_t i = 0; i < width; ++i) {
      out[i] = static_cast<float>((x[i] - mean) * scale * gain[i] + bias[i]);
    }
  }
}

void ProjectToPart(const float* x, const float* weights, const float* bias, int64_t tokens,
                   int64_t inputs, int64_t outputs, float* out) {
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t o = 0; o < outputs; ++o) {
      out[t * outputs + o] =
          static_cast<float>(Dot(x + t * inputs, weights + o * inputs, inputs) + bias[o]);
    }
  }
}

void ProjectFromPart(const float* x, const float* weights, int64_t tokens, int64_t inputs,
                     int64_t outputs, float* out) {
  std::vector<double> sums(static_cast<size_t>(outputs));
  for (int64_t t = 0; t < tokens; ++t) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (int64_t i = 0; i < inputs; ++i) {
      const double factor = x[t * inputs + i];
      const float* row = weights + i * outputs;
      for (int64_t o = 0; o < outputs; ++o) sums[static_cast<size_t>(o)] += factor * row[o];
    }
    std::copy(sums.begin(), sums.end(), out + t * outputs);
  }
}

void Attention(const float* qkv, int64_t tokens, int64_t sequence, int64_t heads, int64_t head_dim,
               float* out) {
  const int64_t token_stride = heads * 3 * head_dim;
  const double scale = 1 / std::sqrt(static_cast<double>(head_dim));
  std::vector<double> scores(static_cast<size_t>(sequence));
  std::vector<double> mixed(static_cast<size_t>(head_dim));
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t first = t - t % sequence;  // the sequence's first token
    const int64_t seen = t - first + 1;
    for (int64_t h = 0; h < heads; ++h) {
      const float* query = qkv + t * token_stride + h * 3 * head_dim;
      const float* keys = qkv + first * token_stride + h * 3 * head_dim + head_dim;
      const float* values = keys + head_dim;
      for (int64_t j = 0; j < seen; ++j) {
        scores[static_cast<size_t>(j)] = scale * Dot(query, keys + j * token_stride, head_dim);
      }
      Softmax(scores.data(), seen);
      std::fill(mixed.begin(), mixed.end(), 0.0);
      for (int64_t j = 0; j < seen; ++j) {
        const double weight = scores[static_cast<size_t>(j)];
        const float* value = values + j * token_stride;
        for (int64_t i = 0; i < head_dim; ++i) mixed[static_cast<size_t>(i)] += weight * value[i];
      }
      std::copy(mixed.begin(), mixed.end(), out + (t * heads + h) * head_dim);
    }
  }
}

void Gelu(const float* x, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(0.5 * x[i] * (1 + std::erf(x[i] * M_SQRT1_2)));
  }
}

void AddBiasAndResidual(const float* x, const float* bias, const float* residual, int64_t tokens,
                        int64_t width, float* out) {
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t i = 0; i < width; ++i) {
      const int64_t at = t * width + i;
      out[at] = x[at] + bias[i] + residual[at];
    }
  }
}

float MaxAbsDifference(const float* a, const float* b, int64_t count) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float difference = std::fabs(a[i] - b[i]);
    if (!(difference <= largest)) largest = difference;  // takes what is not a number, and keeps it
    if (std::isnan(largest)) return largest;
  }
  return largest;
}

}  // namespace lockstep::examples::tensor_parallel
