// Data-parallel training: the program that drives all workers at once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "examples/digits/dataset.h"
#include "runtime/base/status.h"
#include "runtime/client/session.h"

namespace lockstep::examples::digits {

struct TrainOptions {
  int epochs = 40;
  int64_t batch_size = 64;
  double learning_rate = 0.05;
  double momentum = 0.9;
  int64_t seed = 1;
  // Each epoch is executed as a plan (epoch_plan.h), instead of call by call.
  bool as_plan = false;
};

struct TrainResult {
  std::vector<double> losses;  // mean cross entropy of the training samples in each epoch
  int64_t correct = 0;         // of the held-out images
  int64_t held_out = 0;
  std::vector<float> parameters;

  bool operator==(const TrainResult&) const = default;
};

// Trains on all workers of `session` and evaluates on the held-out images. `module_path` is the
// library of digits_module.cc as the workers see it. `on_epoch` is called after each epoch, in the
// caller's thread. The losses are the same for any number of workers, to rounding in double; with
// as many workers the result is the same in every bit, also as a plan.
StatusOr<TrainResult> Train(Session& session, const std::string& module_path, const Split& data,
                            const TrainOptions& options,
                            const std::function<void(int epoch, double loss)>& on_epoch);

}  // namespace lockstep::examples::digits
