#include "services/worker/fragment/prepared_call.h"

#include <cstring>
#include <string>
#include <utility>

#include "runtime/fragment/identity.h"

namespace lockstep::worker {
namespace {

// Extents are those of shapes that outlive it.
LockstepFragmentTensor Descriptor(const void* data, const plan::Box& part, const Shape& whole) {
  // Arguments are only read (abi.h).
  return {const_cast<void*>(data), part.extents.dims().data(), part.begin.dims().data(),
          whole.dims().data()};
}

// Of what each worker keeps, on one that does not call: no elements.
Shape EmptyOf(const fragment::TensorType& type) {
  Shape shape(type.extents);
  for (int d = 0; d < shape.ndim(); ++d) {
    if (d == 0 || shape[d] == fragment::kOpen) shape[d] = 0;
  }
  return shape.ndim() > 0 ? shape : Shape{0};
}

}  // namespace

StatusOr<PreparedCall> PreparedCall::Prepare(fragment::PlacedCall call, int index,
                                             std::shared_ptr<const LoadedObject> object,
                                             absl::Span<const void* const> scalars,
                                             const CallResources& resources) {
  PreparedCall prepared(std::move(call), index, std::move(object));
  const fragment::PlacedCall& placed = prepared.call_;
  const fragment::Signature& signature = placed.signature();
  std::vector<std::vector<Shape>> shapes(signature.results.size());  // by result, by index
  for (int i = 0; i < placed.workers().size(); ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(std::vector<Shape> made, prepared.ShapesAt(i, scalars, resources));
    for (size_t result = 0; result < made.size(); ++result) {
      shapes[result].push_back(std::move(made[result]));
    }
  }
  for (int result = 0; result < signature.num_results(); ++result) {
    const auto at = static_cast<size_t>(result);
    LOCKSTEP_ASSIGN_OR_RETURN(auto layout, placed.ResultLayout(result, shapes[at]));
    if (layout.has_value()) {
      prepared.shapes_.push_back(layout->TileAt(index).extents);
    } else if (placed.Calls(index)) {
      prepared.shapes_.push_back(shapes[at][static_cast<size_t>(index)]);
    } else {
      prepared.shapes_.push_back(EmptyOf(signature.results[at].type));
    }
    prepared.layouts_.push_back(std::move(layout));
  }
  for (int argument = 0; argument < signature.num_arguments(); ++argument) {
    prepared.parts_.push_back(placed.PartAt(argument, index));
  }
  return prepared;
}

StatusOr<std::vector<Shape>> PreparedCall::ShapesAt(int index,
                                                    absl::Span<const void* const> scalars,
                                                    const CallResources& resources) const {
  const fragment::Signature& signature = call_.signature();
  std::vector<plan::Box> parts;
  for (int argument = 0; argument < signature.num_arguments(); ++argument) {
    parts.push_back(call_.PartAt(argument, index));
  }
  std::vector<LockstepFragmentTensor> arguments;
  for (size_t i = 0; i < parts.size(); ++i) {
    const void* const data = signature.arguments[i].type.ndim() == 0 ? scalars[i] : nullptr;
    arguments.push_back(Descriptor(data, parts[i], call_.inputs()[i].shape));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<std::optional<Shape>> told,
                            object_->ResultShapes(arguments, resources));
  std::vector<Shape> shapes;
  for (size_t i = 0; i < told.size(); ++i) {
    std::optional<Shape> shape = told[i];
    if (!shape.has_value()) shape = call_.KnownShape(static_cast<int>(i), index);
    if (!shape.has_value()) {
      return Internal("result ", i, " of `", signature.function, "` is of known size, as its ",
                      "compiler says, and the object does not tell it");
    }
    shapes.push_back(*std::move(shape));
  }
  return shapes;
}

Status PreparedCall::Run(absl::Span<const void* const> arguments, absl::Span<void* const> results,
                         const CallResources& resources) const {
  const fragment::Signature& signature = call_.signature();
  if (!call_.Calls(index_)) {
    for (int result = 0; result < signature.num_results(); ++result) {
      FillWithIdentity(result, results[static_cast<size_t>(result)]);
    }
    return OkStatus();
  }
  std::vector<LockstepFragmentTensor> taken;
  for (size_t i = 0; i < parts_.size(); ++i) {
    taken.push_back(Descriptor(arguments[i], parts_[i], call_.inputs()[i].shape));
  }
  std::vector<LockstepFragmentTensor> made;
  for (size_t i = 0; i < shapes_.size(); ++i) {
    made.push_back({results[i], shapes_[i].dims().data(), nullptr, nullptr});
  }
  return object_->Run(taken, made, resources);
}

void PreparedCall::FillWithIdentity(int result, void* to) const {
  const auto i = static_cast<size_t>(result);
  const std::optional<Reduction> op = fragment::ReductionOf(call_.outputs()[i].combine);
  if (!op.has_value()) return;  // it has none of it
  const DType dtype = call_.signature().results[i].type.dtype;
  // PlacedCall has seen to it that there is one.
  const auto identity = *fragment::IdentityElement(*op, dtype);
  const size_t size = SizeOf(dtype);
  auto* const bytes = static_cast<std::byte*>(to);
  for (int64_t element = 0; element < shapes_[i].NumElements(); ++element) {
    std::memcpy(bytes + static_cast<size_t>(element) * size, identity.data(), size);
  }
}

}  // namespace lockstep::worker
