// What each worker computes, as a module of the tvm-ffi ABI: checks arguments, calls the numerics.
#include <cstdint>

#include "examples/digits/batches.h"
#include "examples/digits/mlp.h"
#include "runtime/module/ffi_export.h"

namespace lockstep::examples::digits {

using ffi::kAny;

namespace {

// Arguments 0 (images, uint8 [n, 64]) and 1 (labels, uint8 [n]).
Samples SamplesOf(const ffi::Args& args) {
  const auto images = args.Tensor<uint8_t>(0, "images", {kAny, kPixels});
  const auto labels = args.Tensor<uint8_t>(1, "labels", {images.dim(0)});
  for (const uint8_t label : labels) {
    if (label >= kClasses) ffi::Args::Fail("ValueError", 1, "labels", "has a label above 9");
  }
  return {images.data(), labels.data(), labels.size()};
}

}  // namespace

// (ids: int32 [n], total, batch_size, seed, epoch) -> int32 [n], the batch of each sample.
LOCKSTEP_FFI_EXPORT(deal_batches, args, result) {
  args.ExpectCount(5);
  const auto ids = args.Tensor<int32_t>(0, "ids", {kAny});
  const int64_t total = args.Int(1, "total");
  const int64_t batch_size = args.Int(2, "batch_size");
  if (batch_size < 1) ffi::Args::Fail("ValueError", 2, "batch_size", "must be at least 1");
  for (const int32_t id : ids) {
    if (id < 0 || id >= total) ffi::Args::Fail("ValueError", 0, "ids", "has one beyond the total");
  }
  const auto batch_of_row = result.NewTensor<int32_t>({ids.size()});
  DealBatches(ids.data(), ids.size(), total, batch_size, static_cast<uint64_t>(args.Int(3, "seed")),
              static_cast<uint64_t>(args.Int(4, "epoch")), batch_of_row.data());
}

// (images, labels, batch_of_row: int32 [n], batch, parameters: float32) -> float64, the sums of the
// gradients of the samples of that batch, as mlp.h lays them out.
LOCKSTEP_FFI_EXPORT(gradient, args, result) {
  args.ExpectCount(5);
  const Samples samples = SamplesOf(args);
  const auto batch_of_row = args.Tensor<int32_t>(2, "batch_of_row", {samples.count});
  const auto batch = static_cast<int32_t>(args.Int(3, "batch"));
  const auto parameters = args.Tensor<float>(4, "parameters", {kParameters});
  const auto gradient = result.NewTensor<double>({kGradientSize});
  Gradient(samples, batch_of_row.data(), batch, parameters.data(), gradient.data());
}

// (gradient: float64, learning_rate, momentum, parameters: float32, velocity: float32,
// totals: float64 [2]): changes the last three.
LOCKSTEP_FFI_EXPORT(step, args, result) {
  args.ExpectCount(6);
  const auto gradient = args.Tensor<double>(0, "gradient", {kGradientSize});
  const auto parameters = args.Tensor<float>(3, "parameters", {kParameters});
  const auto velocity = args.Tensor<float>(4, "velocity", {kParameters});
  const auto totals = args.Tensor<double>(5, "totals", {2});
  Step(gradient.data(), args.Float(1, "learning_rate"), args.Float(2, "momentum"),
       parameters.data(), velocity.data(), totals.data());
}

// (images, labels, parameters: float32) -> float64 [2]: correct answers, samples.
LOCKSTEP_FFI_EXPORT(evaluate, args, result) {
  args.ExpectCount(3);
  const Samples samples = SamplesOf(args);
  const auto parameters = args.Tensor<float>(2, "parameters", {kParameters});
  Evaluate(samples, parameters.data(), result.NewTensor<double>({2}).data());
}

}  // namespace lockstep::examples::digits
