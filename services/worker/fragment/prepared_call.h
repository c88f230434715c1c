// A call of a compiled fragment on one worker, with all that is the same each time it is made.
//
// How large the results are on all workers follows from what each of them is given, and the object
// tells it for any part, without looking at data. So each worker finds the layouts of the results
// by itself, and no worker asks another.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/fragment/placed_call.h"
#include "runtime/plan/layout.h"
#include "services/worker/fragment/loaded_object.h"

namespace lockstep::worker {

// Threads: one at a time.
class PreparedCall {
 public:
  using LayoutPtr = std::shared_ptr<const plan::Layout>;

  // For the worker at `index` of `call.workers()`. The object was compiled for the call's types;
  // null: it is a function, of whose results the call tells all.
  PreparedCall(fragment::PlacedCall call, int index, std::shared_ptr<const LoadedObject> object);

  const fragment::PlacedCall& call() const { return call_; }
  // Whether tensors are to lie on the worker's GPU (LoadedObject).
  bool computes_on_device() const { return object_ != nullptr && object_->computes_on_device(); }
  Rank rank() const { return call_.workers().RankAt(index_); }
  // What this worker is given of an argument, and the layout of that; null: each has its own.
  const plan::Box& Part(size_t argument) const { return parts_[argument]; }
  bool Holds(size_t argument) const { return call_.Holds(static_cast<int>(argument), index_); }
  const LayoutPtr& ArgumentLayout(size_t argument) const { return arguments_[argument]; }
  // Whether what is known to lie by `known` (null: nothing is known) has on this worker what it is
  // given of the argument. If so, that is the one which it was last found of: a loop comes with the
  // same one again.
  bool FindAlike(size_t argument, const LayoutPtr& known);
  const plan::Layout* LastAlike(size_t argument) const { return alike_[argument].get(); }

  // To be called before Run(), with the scalars of that call: by argument, their data; others are
  // not read. Finds how large the results become, and how they lie. Where sizes may depend on
  // numbers, the object is asked again when these change, and only if it then says something else
  // are layouts made anew.
  //
  // Errors: those of LoadedObject::ResultShapes() and PlacedCall::ResultLayout().
  Status FindSizes(absl::Span<const void* const> scalars, const CallResources& resources);

  // After FindSizes(). Null: each worker keeps its own.
  const LayoutPtr& ResultLayout(size_t result) const { return layouts_[result]; }
  // What this worker has of a result: what Run() writes.
  const Shape& ResultShape(size_t result) const { return shapes_[result]; }
  // Of all of them.
  size_t result_bytes() const { return result_bytes_; }

  // Computes this worker's part of the results; or, where it has no part of what is split, writes
  // what changes no result. `arguments`, `results`: dense and row-major, of the shapes of
  // call().PartAt() and ResultShape(); null may be what is empty. Arguments are not read, and may
  // be null, on a worker that does not call. The errors of LoadedObject::Run().
  Status Run(absl::Span<const void* const> arguments, absl::Span<void* const> results,
             const CallResources& resources) const;

 private:
  // By result, what the worker at `index` makes, if it calls.
  using Shapes = std::vector<Shape>;
  StatusOr<Shapes> ShapesAt(int index, absl::Span<const void* const> scalars,
                            const CallResources& resources) const;
  // Those that the call itself tells.
  Shapes KnownShapesAt(int index) const;
  // `made`: by worker.
  Status TakeSizes(std::vector<Shapes> made);
  bool HasSeen(absl::Span<const void* const> scalars) const;
  void Remember(absl::Span<const void* const> scalars);
  Status FillWithIdentity(int result, void* to, tensor::Processor* device) const;

  fragment::PlacedCall call_;
  int index_;
  std::shared_ptr<const LoadedObject> object_;
  std::vector<plan::Box> parts_;  // by argument, like the next
  std::vector<LayoutPtr> arguments_;
  std::vector<LayoutPtr> alike_;
  bool depends_on_scalars_ = false;  // the sizes may
  bool asks_for_all_ = false;        // the call does not tell what the other workers make

  bool has_sizes_ = false;
  std::string scalars_;       // their bytes, of which the sizes are
  std::vector<Shapes> made_;  // by worker, as the object has told; without others, this one's alone
  Shapes shapes_;             // by result, like the next
  std::vector<LayoutPtr> layouts_;
  size_t result_bytes_ = 0;
};

}  // namespace lockstep::worker
