// The network's arithmetic by one thread of the host, on vectors.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "examples/digits/batches.h"
#include "examples/digits/bodies.h"

namespace lockstep::examples::digits {

// Borrowed.
struct Samples {
  const uint8_t* images = nullptr;
  const uint8_t* labels = nullptr;
  int64_t count = 0;
};

// The batch of each of these samples.
inline std::vector<int32_t> DealBatchesOf(const std::vector<int32_t>& ids, int64_t total,
                                          int64_t batch_size, uint64_t seed, uint64_t epoch) {
  std::vector<int64_t> place(static_cast<size_t>(total));
  std::vector<int32_t> batch_of_row(ids.size());
  DealBatches{ids.data(),   static_cast<int64_t>(ids.size()),
              total,        batch_size,
              seed,         epoch,
              place.data(), batch_of_row.data()}
      .Run(0, 1);
  return batch_of_row;
}

// The sums over those samples whose `batch_of_row` is `batch`, each body by so many threads.
inline std::vector<double> GradientOf(const Samples& samples,
                                      const std::vector<int32_t>& batch_of_row, int32_t batch,
                                      const std::vector<float>& parameters, int64_t threads = 1) {
  const auto by_threads = [&](const auto& body) {
    for (int64_t thread = threads - 1; thread >= 0; --thread) body.Run(thread, threads);
  };
  std::vector<int32_t> rows(static_cast<size_t>(samples.count));
  std::vector<Signals> signals(static_cast<size_t>(samples.count));
  std::vector<double> gradient(kGradientSize, -1.0);
  int32_t listed = -1;
  by_threads(ListBatch{batch_of_row.data(), samples.count, batch, rows.data(), &listed});
  by_threads(Differentiate{samples.images, samples.labels, samples.count, rows.data(), &listed,
                           parameters.data(), signals.data()});
  by_threads(SumGradient{samples.images, rows.data(), &listed, signals.data(), gradient.data()});
  return gradient;
}

inline void StepBy(const std::vector<double>& gradient, double learning_rate, double momentum,
                   std::vector<float>& parameters, std::vector<float>& velocity,
                   std::vector<double>& totals) {
  Step{gradient.data(), learning_rate, momentum, parameters.data(), velocity.data(), totals.data()}
      .Run(0, 1);
}

// Correct answers, and of how many.
inline std::vector<double> EvaluateOf(const Samples& samples,
                                      const std::vector<float>& parameters) {
  std::vector<uint8_t> is_right(static_cast<size_t>(samples.count));
  std::vector<double> result(2);
  Classify{samples.images, samples.labels, samples.count, parameters.data(), is_right.data()}.Run(
      0, 1);
  CountRight{is_right.data(), samples.count, result.data()}.Run(0, 1);
  return result;
}

}  // namespace lockstep::examples::digits
