// A call of a compiled fragment on one worker, with all that is the same each time it is made.
//
// How large the results are on all workers follows from what each of them is given, and the object
// tells it for any part, without looking at data. So each worker finds the layouts of the results
// by itself, and no worker asks another.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/fragment/placed_call.h"
#include "runtime/plan/layout.h"
#include "services/worker/fragment/loaded_object.h"

namespace lockstep::worker {

// Threads: any number of Run() at once.
class PreparedCall {
 public:
  // For the worker at `index` of `call.workers()`. The object was compiled for the call's types.
  // `scalars`: by argument, the data of those that are scalars; others are not read. Sizes may
  // depend on scalars, so a call with others is to be prepared anew where a result's extents are
  // open.
  //
  // Errors: those of LoadedObject::ResultShapes() and PlacedCall::ResultLayout(), the same on all
  // workers.
  static StatusOr<PreparedCall> Prepare(fragment::PlacedCall call, int index,
                                        std::shared_ptr<const LoadedObject> object,
                                        absl::Span<const void* const> scalars,
                                        const CallResources& resources);

  const fragment::PlacedCall& call() const { return call_; }
  // None: each worker keeps its own.
  const std::optional<plan::Layout>& ResultLayout(int result) const {
    return layouts_[static_cast<size_t>(result)];
  }
  // What this worker has of a result: what Run() writes.
  const Shape& ResultShape(int result) const { return shapes_[static_cast<size_t>(result)]; }

  // Computes this worker's part of the results; or, where it has no part of what is split, writes
  // what changes no result. `arguments`, `results`: dense and row-major, of the shapes of
  // call().PartAt() and ResultShape(); null may be what is empty. Arguments are not read, and may
  // be null, on a worker that does not call. The errors of LoadedObject::Run().
  Status Run(absl::Span<const void* const> arguments, absl::Span<void* const> results,
             const CallResources& resources) const;

 private:
  PreparedCall(fragment::PlacedCall call, int index, std::shared_ptr<const LoadedObject> object)
      : call_(std::move(call)), index_(index), object_(std::move(object)) {}

  // By result, what the worker at `index` makes, if it calls.
  StatusOr<std::vector<Shape>> ShapesAt(int index, absl::Span<const void* const> scalars,
                                        const CallResources& resources) const;
  void FillWithIdentity(int result, void* to) const;

  fragment::PlacedCall call_;
  int index_;
  std::shared_ptr<const LoadedObject> object_;
  std::vector<plan::Box> parts_;  // by argument
  std::vector<Shape> shapes_;     // by result, like the next
  std::vector<std::optional<plan::Layout>> layouts_;
};

}  // namespace lockstep::worker
