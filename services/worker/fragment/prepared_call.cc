#include "services/worker/fragment/prepared_call.h"

#include <cstring>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "runtime/fragment/identity.h"

namespace lockstep::worker {
namespace {

// Of the arguments or results of usual calls, without taking memory for them.
using Descriptors = absl::InlinedVector<LockstepFragmentTensor, 8>;

PreparedCall::LayoutPtr Shared(const std::optional<plan::Layout>& layout) {
  return layout.has_value() ? std::make_shared<const plan::Layout>(*layout) : nullptr;
}

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

PreparedCall::PreparedCall(fragment::PlacedCall call, int index,
                           std::shared_ptr<const LoadedObject> object)
    : call_(std::move(call)), index_(index), object_(std::move(object)) {
  const fragment::Signature& signature = call_.signature();
  for (int argument = 0; argument < signature.num_arguments(); ++argument) {
    parts_.push_back(call_.PartAt(argument, index));
    arguments_.push_back(Shared(call_.ArgumentLayout(argument)));
  }
  alike_ = arguments_;
  for (int result = 0; result < signature.num_results(); ++result) {
    // Also where the call gives the shape, which is checked for each number.
    const bool is_open = !signature.results[static_cast<size_t>(result)].type.IsClosed();
    depends_on_scalars_ = depends_on_scalars_ || (is_open && object_ != nullptr);
    if (!call_.KnownShape(result, index).has_value()) asks_for_all_ = true;
  }
}

bool PreparedCall::FindAlike(size_t argument, const LayoutPtr& known) {
  const LayoutPtr& given = arguments_[argument];
  if (known != nullptr && given != nullptr && !plan::LieAlikeAt(rank(), *known, *given)) {
    return false;
  }
  alike_[argument] = known;
  return true;
}

Status PreparedCall::FindSizes(absl::Span<const void* const> scalars,
                               const CallResources& resources) {
  if (has_sizes_ && (!depends_on_scalars_ || HasSeen(scalars))) return OkStatus();
  std::vector<Shapes> made;
  if (object_ == nullptr) {
    made.push_back(KnownShapesAt(index_));
  } else if (asks_for_all_) {
    for (int i = 0; i < call_.workers().size(); ++i) {
      LOCKSTEP_ASSIGN_OR_RETURN(Shapes shapes, ShapesAt(i, scalars, resources));
      made.push_back(std::move(shapes));
    }
  } else {
    LOCKSTEP_ASSIGN_OR_RETURN(Shapes own, ShapesAt(index_, scalars, resources));
    made.push_back(std::move(own));
  }
  if (!has_sizes_ || made != made_) LOCKSTEP_RETURN_IF_ERROR(TakeSizes(std::move(made)));
  if (depends_on_scalars_) Remember(scalars);
  return OkStatus();
}

Status PreparedCall::TakeSizes(std::vector<Shapes> made) {
  const fragment::Signature& signature = call_.signature();
  has_sizes_ = false;
  shapes_.clear();
  layouts_.clear();
  result_bytes_ = 0;
  std::vector<Shapes> by_result(signature.results.size());
  for (int i = 0; i < call_.workers().size(); ++i) {
    const bool is_asked = asks_for_all_ || i == index_;
    const Shapes at =
        is_asked ? made[asks_for_all_ ? static_cast<size_t>(i) : 0] : KnownShapesAt(i);
    for (size_t result = 0; result < at.size(); ++result) by_result[result].push_back(at[result]);
  }
  for (int result = 0; result < signature.num_results(); ++result) {
    const auto at = static_cast<size_t>(result);
    const fragment::TensorType& type = signature.results[at].type;
    LOCKSTEP_ASSIGN_OR_RETURN(const auto layout, call_.ResultLayout(result, by_result[at]));
    if (layout.has_value()) {
      shapes_.push_back(layout->TileAt(index_).extents);
    } else if (call_.Calls(index_)) {
      shapes_.push_back(by_result[at][static_cast<size_t>(index_)]);
    } else {
      shapes_.push_back(EmptyOf(type));
    }
    layouts_.push_back(Shared(layout));
    result_bytes_ += static_cast<size_t>(shapes_.back().NumElements()) * SizeOf(type.dtype);
  }
  made_ = std::move(made);
  has_sizes_ = true;
  return OkStatus();
}

bool PreparedCall::HasSeen(absl::Span<const void* const> scalars) const {
  const char* seen = scalars_.data();
  for (size_t i = 0; i < scalars.size(); ++i) {
    const fragment::TensorType& type = call_.signature().arguments[i].type;
    if (type.ndim() != 0) continue;
    if (std::memcmp(seen, scalars[i], SizeOf(type.dtype)) != 0) return false;
    seen += SizeOf(type.dtype);
  }
  return true;
}

void PreparedCall::Remember(absl::Span<const void* const> scalars) {
  scalars_.clear();
  for (size_t i = 0; i < scalars.size(); ++i) {
    const fragment::TensorType& type = call_.signature().arguments[i].type;
    if (type.ndim() != 0) continue;
    scalars_.append(static_cast<const char*>(scalars[i]), SizeOf(type.dtype));
  }
}

PreparedCall::Shapes PreparedCall::KnownShapesAt(int index) const {
  Shapes shapes;
  for (int result = 0; result < call_.signature().num_results(); ++result) {
    shapes.push_back(*call_.KnownShape(result, index));
  }
  return shapes;
}

StatusOr<PreparedCall::Shapes> PreparedCall::ShapesAt(int index,
                                                      absl::Span<const void* const> scalars,
                                                      const CallResources& resources) const {
  const fragment::Signature& signature = call_.signature();
  // What the fragment says of parts that it is never given may be an error, and counts for nothing.
  if (!call_.Calls(index)) return Shapes(signature.results.size());
  absl::InlinedVector<plan::Box, 4> others;
  if (index != index_) {
    for (int i = 0; i < signature.num_arguments(); ++i) others.push_back(call_.PartAt(i, index));
  }
  const absl::Span<const plan::Box> parts = index == index_ ? absl::MakeConstSpan(parts_) : others;
  Descriptors arguments;
  for (size_t i = 0; i < parts.size(); ++i) {
    const void* const data = signature.arguments[i].type.ndim() == 0 ? scalars[i] : nullptr;
    arguments.push_back(Descriptor(data, parts[i], call_.inputs()[i].shape));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<std::optional<Shape>> told,
                            object_->ResultShapes(arguments, resources));
  Shapes shapes;
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
      LOCKSTEP_RETURN_IF_ERROR(
          FillWithIdentity(result, results[static_cast<size_t>(result)], resources.device));
    }
    return OkStatus();
  }
  Descriptors taken;
  for (size_t i = 0; i < parts_.size(); ++i) {
    taken.push_back(Descriptor(arguments[i], parts_[i], call_.inputs()[i].shape));
  }
  Descriptors made;
  for (size_t i = 0; i < shapes_.size(); ++i) {
    made.push_back({results[i], shapes_[i].dims().data(), nullptr, nullptr});
  }
  return object_->Run(taken, made, resources);
}

Status PreparedCall::FillWithIdentity(int result, void* to, tensor::Processor* device) const {
  const auto i = static_cast<size_t>(result);
  const std::optional<Reduction> op = fragment::ReductionOf(call_.outputs()[i].combine);
  if (!op.has_value()) return OkStatus();  // it has none of it
  const DType dtype = call_.signature().results[i].type.dtype;
  // PlacedCall has seen to it that there is one.
  const auto identity = *fragment::IdentityElement(*op, dtype);
  const size_t size = SizeOf(dtype);
  if (device != nullptr) {
    uint64_t pattern = 0;
    std::memcpy(&pattern, identity.data(), size);
    return device->Fill({to, static_cast<size_t>(shapes_[i].NumElements()), dtype}, pattern);
  }
  auto* const bytes = static_cast<std::byte*>(to);
  for (int64_t element = 0; element < shapes_[i].NumElements(); ++element) {
    std::memcpy(bytes + static_cast<size_t>(element) * size, identity.data(), size);
  }
  return OkStatus();
}

}  // namespace lockstep::worker
