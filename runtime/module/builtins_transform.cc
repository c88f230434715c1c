// Built-in functions that convert, cut and join tensors.
#include <utility>
#include <vector>

#include "runtime/module/builtins.h"
#include "runtime/tensor/processor.h"

namespace lockstep::module {
namespace {

using registers::Describe;
using registers::List;
using registers::Value;
using tensor::Tensor;

Status Cast(const CallContext& context, ArgReader& in, Value* result) {
  const Tensor tensor = in.ReachableTensor("tensor");
  const DType dtype = in.Dtype("dtype");
  LOCKSTEP_RETURN_IF_ERROR(in.Finish());
  tensor::Processor& place = *context.Of(tensor.device());
  LOCKSTEP_ASSIGN_OR_RETURN(Tensor cast, Tensor::Empty(place.allocator(), dtype, tensor.shape()));
  LOCKSTEP_RETURN_IF_ERROR(place.Cast(tensor, cast));
  *result = std::move(cast);
  return OkStatus();
}

Status Reshape(const CallContext&, ArgReader& in, Value* result) {
  const Tensor tensor = in.ReachableTensor("tensor");
  const Shape shape = in.TensorShape("shape");
  LOCKSTEP_RETURN_IF_ERROR(in.Finish());
  LOCKSTEP_ASSIGN_OR_RETURN(*result, tensor.Reshaped(shape));
  return OkStatus();
}

// Between any two places. Views may share memory.
Status CopyAll(const CallContext& context, const Tensor& from, const Tensor& to) {
  const size_t size = from.size_bytes();
  tensor::Processor& source = *context.Of(from.device());
  if (from.device().type == to.device().type) {
    return source.CopyRows(to.data(), size, from.data(), size, size, 1);
  }
  if (from.device().type == DeviceType::kCpu) {
    return context.Of(to.device())->FromHost(to.data(), from.data(), size);
  }
  return source.ToHost(to.data(), from.data(), size);
}

Status Copy(const CallContext& context, ArgReader& in, Value* result) {
  const Tensor source = in.ReachableTensor("source");
  Tensor target;
  if (in.HasNext()) target = in.ReachableTensor("target");
  LOCKSTEP_RETURN_IF_ERROR(in.Finish());
  tensor::Processor& place = *context.Of(source.device());
  if (target.IsNull()) {
    LOCKSTEP_ASSIGN_OR_RETURN(target,
                              Tensor::Empty(place.allocator(), source.dtype(), source.shape()));
  } else if (target.dtype() != source.dtype() || target.shape() != source.shape()) {
    in.Reject("must be " + Describe(source) + " like the source, not " + Describe(target));
    return in.Finish();
  }
  LOCKSTEP_RETURN_IF_ERROR(CopyAll(context, source, target));
  *result = std::move(target);
  return OkStatus();
}

Status ToDevice(const CallContext& context, ArgReader& in, Value* result) {
  const Tensor tensor = in.ReachableTensor("tensor");
  const Device device = in.ReachableDevice("device");
  LOCKSTEP_RETURN_IF_ERROR(in.Finish());
  LOCKSTEP_ASSIGN_OR_RETURN(
      *result, tensor::MoveTo(*context.Of(device), *context.Of(tensor.device()), tensor));
  return OkStatus();
}

// A row-major tensor seen from one axis: `outer` blocks, each `extent` rows of `row_bytes`.
struct AxisView {
  AxisView(const Tensor& tensor, int64_t axis) {
    for (int i = 0; i < static_cast<int>(axis); ++i) outer *= tensor.shape()[i];
    extent = tensor.shape()[static_cast<int>(axis)];
    row_bytes = SizeOf(tensor.dtype());
    for (int i = static_cast<int>(axis) + 1; i < tensor.shape().ndim(); ++i) {
      row_bytes *= static_cast<size_t>(tensor.shape()[i]);
    }
  }
  size_t BlockBytes() const { return static_cast<size_t>(extent) * row_bytes; }

  int64_t outer = 1;
  int64_t extent = 0;
  size_t row_bytes = 0;
};

// Copies rows [from_row, from_row + rows) of every block of `from` to row `to_row` on in `to`,
// which lies at the same place.
Status CopyAlongAxis(tensor::Processor& place, const Tensor& from, int64_t from_row,
                     const Tensor& to, int64_t to_row, int64_t rows, int64_t axis) {
  const AxisView source(from, axis);
  const AxisView target(to, axis);
  return place.CopyRows(
      to.data_as<std::byte>() + static_cast<size_t>(to_row) * target.row_bytes, target.BlockBytes(),
      from.data_as<const std::byte>() + static_cast<size_t>(from_row) * source.row_bytes,
      source.BlockBytes(), static_cast<size_t>(rows) * source.row_bytes,
      static_cast<size_t>(source.outer));
}

Status Slice(const CallContext& context, ArgReader& in, Value* result) {
  const Tensor tensor = in.ReachableTensor("tensor");
  const Shape shape = tensor.IsNull() ? Shape() : tensor.shape();
  const int64_t axis = in.IndexBelow("axis", shape.ndim());
  const int64_t begin = in.Int("begin");
  const int64_t end = in.Int("end");
  LOCKSTEP_RETURN_IF_ERROR(in.Finish());
  const int64_t extent = shape[static_cast<int>(axis)];
  if (begin < 0 || begin > end || end > extent) {
    return InvalidArgument("[", begin, ", ", end, ") is not within axis ", axis, " of ",
                           Describe(tensor));
  }
  if (axis == 0) {
    LOCKSTEP_ASSIGN_OR_RETURN(*result, tensor.Rows(begin, end));
    return OkStatus();
  }
  tensor::Processor& place = *context.Of(tensor.device());
  Shape cut_shape = shape;
  cut_shape[static_cast<int>(axis)] = end - begin;
  LOCKSTEP_ASSIGN_OR_RETURN(Tensor cut,
                            Tensor::Empty(place.allocator(), tensor.dtype(), cut_shape));
  LOCKSTEP_RETURN_IF_ERROR(CopyAlongAxis(place, tensor, begin, cut, 0, end - begin, axis));
  *result = std::move(cut);
  return OkStatus();
}

// Checks that `parts` agree in everything but the extent of `axis`; returns the shape of them all.
StatusOr<Shape> ConcatShape(const std::vector<Tensor>& parts, int64_t axis) {
  const int along = static_cast<int>(axis);
  Shape joined = parts.front().shape();
  joined[along] = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    Shape expected = parts[i].shape();
    if (expected.ndim() == joined.ndim()) expected[along] = joined[along];
    if (expected != joined || parts[i].dtype() != parts[0].dtype() ||
        parts[i].device() != parts[0].device()) {
      return InvalidArgument("tensor ", i + 1, " is ", Describe(parts[i]),
                             " and cannot be joined along axis ", axis, " with the first, ",
                             Describe(parts[0]));
    }
    if (__builtin_add_overflow(joined[along], parts[i].shape()[along], &joined[along])) {
      return InvalidArgument("the joined tensors are larger than any tensor");
    }
  }
  return joined;
}

// The tensors to join: (axis, tensor, tensor, ...) or (list, axis). Leaves `axis` unchecked where
// there is no tensor to check it against.
Status ReadParts(ArgReader& in, std::vector<Tensor>* parts, int64_t* axis) {
  if (!in.NextIsList()) {
    *axis = in.Int("axis");
    while (in.HasNext()) parts->push_back(in.ReachableTensor("tensor"));
    return in.Finish();
  }
  const Value tensors = in.Any("tensors");
  *axis = in.Int("axis");
  LOCKSTEP_RETURN_IF_ERROR(in.Finish());
  const List& list = **tensors.As<std::shared_ptr<const List>>();
  ArgReader items(list, in.has_gpu());
  for (size_t i = 0; i < list.size(); ++i) parts->push_back(items.ReachableTensor("tensor"));
  return Annotate(items.Finish(), "in the list of tensors");
}

Status Concat(const CallContext& context, ArgReader& in, Value* result) {
  std::vector<Tensor> parts;
  int64_t axis = 0;
  LOCKSTEP_RETURN_IF_ERROR(ReadParts(in, &parts, &axis));
  if (parts.empty()) return InvalidArgument("there is no tensor to join");
  if (axis < 0 || axis >= parts.front().shape().ndim()) {
    return InvalidArgument("axis ", axis, " is not one of ", Describe(parts.front()));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const Shape shape, ConcatShape(parts, axis));
  tensor::Processor& place = *context.Of(parts.front().device());
  LOCKSTEP_ASSIGN_OR_RETURN(Tensor joined,
                            Tensor::Empty(place.allocator(), parts.front().dtype(), shape));
  int64_t row = 0;
  for (const Tensor& part : parts) {
    const int64_t rows = part.shape()[static_cast<int>(axis)];
    LOCKSTEP_RETURN_IF_ERROR(CopyAlongAxis(place, part, 0, joined, row, rows, axis));
    row += rows;
  }
  *result = std::move(joined);
  return OkStatus();
}

constexpr Builtin kTransformBuiltins[] = {
    {"lockstep.cast", Cast, kNoTarget, kCaptured},
    {"lockstep.reshape", Reshape},
    {"lockstep.copy", Copy, 1, kCaptured},
    {"lockstep.slice", Slice, kNoTarget, kCaptured},
    {"lockstep.concat", Concat, kNoTarget, kCaptured},
    {"lockstep.to_device", ToDevice},
};

}  // namespace

absl::Span<const Builtin> TransformBuiltins() { return kTransformBuiltins; }

}  // namespace lockstep::module
