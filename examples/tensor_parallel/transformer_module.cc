// The block's arithmetic as a module of the tvm-ffi ABI: checks arguments, makes the result's
// tensor, and works where the first argument lies: on the host, or on a GPU.
#include <cstdint>

#include "examples/tensor_parallel/bodies.h"
#include "runtime/module/kit/ffi_kernels.h"

// kernels.cu, as cuda_kernels() has compiled it.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" const char _binary_transformer_kernels_fatbin_start[];

namespace lockstep::examples::tensor_parallel {

using ffi::kAny;

namespace {

template <typename Body>
void RunOn(DLDevice device, const Body& body) {
  static const ffi::Kernels kernels(_binary_transformer_kernels_fatbin_start);
  kernels.Run(device, body, body.pieces());
}

}  // namespace

// (x [tokens, width], gain [width], bias [width]) -> [tokens, width]
LOCKSTEP_FFI_EXPORT(layer_norm, args, result) {
  args.ExpectCount(3);
  const DLDevice device = args.DeviceOf(0, "x");
  const auto x = args.Tensor<float>(0, "x", {kAny, kAny}, device);
  const auto gain = args.Tensor<float>(1, "gain", {x.dim(1)}, device);
  const auto bias = args.Tensor<float>(2, "bias", {x.dim(1)}, device);
  const auto out = result.NewTensor<float>({x.dim(0), x.dim(1)}, device);
  RunOn(device, LayerNorm{x.data(), gain.data(), bias.data(), x.dim(0), x.dim(1), out.data()});
}

// (x [tokens, inputs], weights [parts, outputs, inputs], bias [parts, outputs])
//     -> [tokens, parts * outputs]
LOCKSTEP_FFI_EXPORT(project_to_part, args, result) {
  args.ExpectCount(3);
  const DLDevice device = args.DeviceOf(0, "x");
  const auto x = args.Tensor<float>(0, "x", {kAny, kAny}, device);
  const auto weights = args.Tensor<float>(1, "weights", {kAny, kAny, x.dim(1)}, device);
  const auto bias = args.Tensor<float>(2, "bias", {weights.dim(0), weights.dim(1)}, device);
  const auto out = result.NewTensor<float>({x.dim(0), bias.size()}, device);
  RunOn(device, ProjectToPart{x.data(), weights.data(), bias.data(), x.dim(0), x.dim(1),
                              bias.size(), out.data()});
}

// (x [tokens, parts * inputs], weights [parts, inputs, outputs]) -> [tokens, outputs]
LOCKSTEP_FFI_EXPORT(project_from_part, args, result) {
  args.ExpectCount(2);
  const DLDevice device = args.DeviceOf(0, "x");
  const auto weights = args.Tensor<float>(1, "weights", {kAny, kAny, kAny}, device);
  const int64_t inputs = weights.dim(0) * weights.dim(1);
  const auto x = args.Tensor<float>(0, "x", {kAny, inputs}, device);
  const auto out = result.NewTensor<float>({x.dim(0), weights.dim(2)}, device);
  RunOn(device,
        ProjectFromPart{x.data(), weights.data(), x.dim(0), inputs, weights.dim(2), out.data()});
}

// (qkv [tokens, heads * 3 * head_dim], sequence, head_dim) -> [tokens, heads * head_dim]
LOCKSTEP_FFI_EXPORT(attention, args, result) {
  args.ExpectCount(3);
  const DLDevice device = args.DeviceOf(0, "qkv");
  const auto qkv = args.Tensor<float>(0, "qkv", {kAny, kAny}, device);
  const int64_t sequence = args.Int(1, "sequence");
  const int64_t head_dim = args.Int(2, "head_dim");
  if (sequence < 1 || qkv.dim(0) % sequence != 0) {
    ffi::Args::Fail("ValueError", 1, "sequence", "does not divide the tokens");
  }
  if (head_dim < 1 || qkv.dim(1) % (3 * head_dim) != 0) {
    ffi::Args::Fail("ValueError", 2, "head_dim", "does not divide a token into heads");
  }
  const int64_t heads = qkv.dim(1) / (3 * head_dim);
  const int64_t turns = ffi::IsHost(device) ? 1 : qkv.dim(0) * heads;
  const ffi::Scratch<double> scratch(turns * sequence, device);
  const auto out = result.NewTensor<float>({qkv.dim(0), heads * head_dim}, device);
  RunOn(device,
        Attention{qkv.data(), qkv.dim(0), sequence, heads, head_dim, scratch.data(), out.data()});
}

// (x [tokens, width]) -> the same shape
LOCKSTEP_FFI_EXPORT(gelu, args, result) {
  args.ExpectCount(1);
  const DLDevice device = args.DeviceOf(0, "x");
  const auto x = args.Tensor<float>(0, "x", {kAny, kAny}, device);
  const auto out = result.NewTensor<float>({x.dim(0), x.dim(1)}, device);
  RunOn(device, Gelu{x.data(), x.size(), out.data()});
}

// (x [tokens, width], bias [width], residual [tokens, width]) -> [tokens, width]
LOCKSTEP_FFI_EXPORT(add_bias_and_residual, args, result) {
  args.ExpectCount(3);
  const DLDevice device = args.DeviceOf(0, "x");
  const auto x = args.Tensor<float>(0, "x", {kAny, kAny}, device);
  const auto bias = args.Tensor<float>(1, "bias", {x.dim(1)}, device);
  const auto residual = args.Tensor<float>(2, "residual", {x.dim(0), x.dim(1)}, device);
  const auto out = result.NewTensor<float>({x.dim(0), x.dim(1)}, device);
  RunOn(device,
        AddBiasAndResidual{x.data(), bias.data(), residual.data(), x.dim(0), x.dim(1), out.data()});
}

// (a [tokens, width], b [tokens, width]) -> [1], the largest absolute difference
LOCKSTEP_FFI_EXPORT(max_abs_difference, args, result) {
  args.ExpectCount(2);
  const DLDevice device = args.DeviceOf(0, "a");
  const auto a = args.Tensor<float>(0, "a", {kAny, kAny}, device);
  const auto b = args.Tensor<float>(1, "b", {a.dim(0), a.dim(1)}, device);
  const auto out = result.NewTensor<float>({1}, device);
  RunOn(device, MaxAbsDifference{a.data(), b.data(), a.size(), out.data()});
}

}  // namespace lockstep::examples::tensor_parallel
