// The block's kernels as a module of the tvm-ffi ABI: checks arguments, makes the result's tensor.
#include <cstdint>

#include "examples/tensor_parallel/kernels.h"
#include "runtime/module/ffi_export.h"

namespace lockstep::examples::tensor_parallel {

using ffi::kAny;

// (x [tokens, width], gain [width], bias [width]) -> [tokens, width]
LOCKSTEP_FFI_EXPORT(layer_norm, args, result) {
  args.ExpectCount(3);
  const auto x = args.Tensor<float>(0, "x", {kAny, kAny});
  const auto gain = args.Tensor<float>(1, "gain", {x.dim(1)});
  const auto bias = args.Tensor<float>(2, "bias", {x.dim(1)});
  const auto out = result.NewTensor<float>({x.dim(0), x.dim(1)});
  LayerNorm(x.data(), gain.data(), bias.data(), x.dim(0), x.dim(1), out.data());
}

// (x [tokens, inputs], weights [parts, outputs, inputs], bias [parts, outputs])
//     -> [tokens, parts * outputs]
LOCKSTEP_FFI_EXPORT(project_to_part, args, result) {
  args.ExpectCount(3);
  const auto x = args.Tensor<float>(0, "x", {kAny, kAny});
  const auto weights = args.Tensor<float>(1, "weights", {kAny, kAny, x.dim(1)});
  const auto bias = args.Tensor<float>(2, "bias", {weights.dim(0), weights.dim(1)});
  const auto out = result.NewTensor<float>({x.dim(0), bias.size()});
  ProjectToPart(x.data(), weights.data(), bias.data(), x.dim(0), x.dim(1), bias.size(), out.data());
}

// (x [tokens, parts * inputs], weights [parts, inputs, outputs]) -> [tokens, outputs]
LOCKSTEP_FFI_EXPORT(project_from_part, args, result) {
  args.ExpectCount(2);
  const auto weights = args.Tensor<float>(1, "weights", {kAny, kAny, kAny});
  const int64_t inputs = weights.dim(0) * weights.dim(1);
  const auto x = args.Tensor<float>(0, "x", {kAny, inputs});
  const auto out = result.NewTensor<float>({x.dim(0), weights.dim(2)});
  ProjectFromPart(x.data(), weights.data(), x.dim(0), inputs, weights.dim(2), out.data());
}

// (qkv [tokens, heads * 3 * head_dim], sequence, head_dim) -> [tokens, heads * head_dim]
LOCKSTEP_FFI_EXPORT(attention, args, result) {
  args.ExpectCount(3);
  const auto qkv = args.Tensor<float>(0, "qkv", {kAny, kAny});
  const int64_t sequence = args.Int(1, "sequence");
  const int64_t head_dim = args.Int(2, "head_dim");
  if (sequence < 1 || qkv.dim(0) % sequence != 0) {
    ffi::Args::Fail("ValueError", 1, "sequence", "does not divide the tokens");
  }
  if (head_dim < 1 || qkv.dim(1) % (3 * head_dim) != 0) {
    ffi::Args::Fail("ValueError", 2, "head_dim", "does not divide a token into heads");
  }
  const int64_t heads = qkv.dim(1) / (3 * head_dim);
  const auto out = result.NewTensor<float>({qkv.dim(0), heads * head_dim});
  Attention(qkv.data(), qkv.dim(0), sequence, heads, head_dim, out.data());
}

// (x [tokens, width]) -> the same shape
LOCKSTEP_FFI_EXPORT(gelu, args, result) {
  args.ExpectCount(1);
  const auto x = args.Tensor<float>(0, "x", {kAny, kAny});
  Gelu(x.data(), x.size(), result.NewTensor<float>({x.dim(0), x.dim(1)}).data());
}

// (x [tokens, width], bias [width], residual [tokens, width]) -> [tokens, width]
LOCKSTEP_FFI_EXPORT(add_bias_and_residual, args, result) {
  args.ExpectCount(3);
  const auto x = args.Tensor<float>(0, "x", {kAny, kAny});
  const auto bias = args.Tensor<float>(1, "bias", {x.dim(1)});
  const auto residual = args.Tensor<float>(2, "residual", {x.dim(0), x.dim(1)});
  const auto out = result.NewTensor<float>({x.dim(0), x.dim(1)});
  AddBiasAndResidual(x.data(), bias.data(), residual.data(), x.dim(0), x.dim(1), out.data());
}

// (a [tokens, width], b [tokens, width]) -> [1], the largest absolute difference
LOCKSTEP_FFI_EXPORT(max_abs_difference, args, result) {
  args.ExpectCount(2);
  const auto a = args.Tensor<float>(0, "a", {kAny, kAny});
  const auto b = args.Tensor<float>(1, "b", {a.dim(0), a.dim(1)});
  result.NewTensor<float>({1})[0] = MaxAbsDifference(a.data(), b.data(), a.size());
}

}  // namespace lockstep::examples::tensor_parallel
