// What each worker computes, as a module of the tvm-ffi ABI: checks arguments, and works where the
// first of them lies: on the host, or on a GPU.
#include <cstdint>

#include "examples/digits/batches.h"
#include "examples/digits/bodies.h"
#include "runtime/module/kit/ffi_kernels.h"

// kernels.cu, as cuda_kernels() has compiled it.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" const char _binary_digits_kernels_fatbin_start[];

namespace lockstep::examples::digits {

using ffi::kAny;

namespace {

template <typename Body>
void RunOn(DLDevice device, const Body& body) {
  static const ffi::Kernels kernels(_binary_digits_kernels_fatbin_start);
  kernels.Run(device, body, body.pieces());
}

struct Samples {
  const uint8_t* images;
  const uint8_t* labels;
  int64_t count;
};

// Arguments 0 (images, uint8 [n, 64]) and 1 (labels, uint8 [n]).
Samples SamplesOf(const ffi::Args& args, DLDevice device) {
  const auto images = args.Tensor<uint8_t>(0, "images", {kAny, kPixels}, device);
  const auto labels = args.Tensor<uint8_t>(1, "labels", {images.dim(0)}, device);
  // A host cannot look at what lies on a GPU: there the loss tells.
  for (int64_t row = 0; ffi::IsHost(device) && row < labels.size(); ++row) {
    if (labels[row] >= kClasses) {
      ffi::Args::Fail("ValueError", 1, "labels", "has a label above 9");
    }
  }
  return {images.data(), labels.data(), labels.size()};
}

}  // namespace

// (ids: int32 [n], total, batch_size, seed, epoch) -> int32 [n], the batch of each sample.
LOCKSTEP_FFI_EXPORT(deal_batches, args, result) {
  args.ExpectCount(5);
  const DLDevice device = args.DeviceOf(0, "ids");
  const auto ids = args.Tensor<int32_t>(0, "ids", {kAny}, device);
  const int64_t total = args.Int(1, "total");
  const int64_t batch_size = args.Int(2, "batch_size");
  if (total < 0) ffi::Args::Fail("ValueError", 1, "total", "must be at least 0");
  if (batch_size < 1) ffi::Args::Fail("ValueError", 2, "batch_size", "must be at least 1");
  for (int64_t row = 0; ffi::IsHost(device) && row < ids.size(); ++row) {
    if (ids[row] < 0 || ids[row] >= total) {
      ffi::Args::Fail("ValueError", 0, "ids", "has one beyond the total");
    }
  }
  const auto batch_of_row = result.NewTensor<int32_t>({ids.size()}, device);
  const ffi::Scratch<int64_t> place(total, device);
  RunOn(device, DealBatches{ids.data(), ids.size(), total, batch_size,
                            static_cast<uint64_t>(args.Int(3, "seed")),
                            static_cast<uint64_t>(args.Int(4, "epoch")), place.data(),
                            batch_of_row.data()});
}

// (images, labels, batch_of_row: int32 [n], batch, parameters: float32) -> float64, the sums of the
// gradients of the samples of that batch, as mlp.h lays them out.
LOCKSTEP_FFI_EXPORT(gradient, args, result) {
  args.ExpectCount(5);
  const DLDevice device = args.DeviceOf(0, "images");
  const auto [images, labels, count] = SamplesOf(args, device);
  const auto batch_of_row = args.Tensor<int32_t>(2, "batch_of_row", {count}, device);
  const auto batch = static_cast<int32_t>(args.Int(3, "batch"));
  const auto parameters = args.Tensor<float>(4, "parameters", {kParameters}, device);
  const auto gradient = result.NewTensor<double>({kGradientSize}, device);

  const ffi::Scratch<int32_t> rows(count, device);
  const ffi::Scratch<int32_t> listed(1, device);
  const ffi::Scratch<double> signals(count * int64_t{sizeof(Signals) / sizeof(double)}, device);
  auto* const signals_of_row = reinterpret_cast<Signals*>(signals.data());
  RunOn(device, ListBatch{batch_of_row.data(), count, batch, rows.data(), listed.data()});
  RunOn(device, Differentiate{images, labels, count, rows.data(), listed.data(), parameters.data(),
                              signals_of_row});
  RunOn(device, SumGradient{images, rows.data(), listed.data(), signals_of_row, gradient.data()});
}

// (gradient: float64, learning_rate, momentum, parameters: float32, velocity: float32,
// totals: float64 [2]): changes the last three.
LOCKSTEP_FFI_EXPORT(step, args, result) {
  args.ExpectCount(6);
  const DLDevice device = args.DeviceOf(0, "gradient");
  const auto gradient = args.Tensor<double>(0, "gradient", {kGradientSize}, device);
  const auto parameters = args.Tensor<float>(3, "parameters", {kParameters}, device);
  const auto velocity = args.Tensor<float>(4, "velocity", {kParameters}, device);
  const auto totals = args.Tensor<double>(5, "totals", {2}, device);
  RunOn(device, Step{gradient.data(), args.Float(1, "learning_rate"), args.Float(2, "momentum"),
                     parameters.data(), velocity.data(), totals.data()});
}

// (images, labels, parameters: float32) -> float64 [2]: correct answers, samples.
LOCKSTEP_FFI_EXPORT(evaluate, args, result) {
  args.ExpectCount(3);
  const DLDevice device = args.DeviceOf(0, "images");
  const auto [images, labels, count] = SamplesOf(args, device);
  const auto parameters = args.Tensor<float>(2, "parameters", {kParameters}, device);
  const auto counts = result.NewTensor<double>({2}, device);
  const ffi::Scratch<uint8_t> is_right(count, device);
  RunOn(device, Classify{images, labels, count, parameters.data(), is_right.data()});
  RunOn(device, CountRight{is_right.data(), count, counts.data()});
}

}  // namespace lockstep::examples::digits
