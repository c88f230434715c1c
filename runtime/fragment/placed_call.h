// A call of a fragment, checked against its signature: what each worker gets, and what the results
// are.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/fragment/fragment.h"
#include "runtime/fragment/signature.h"
#include "runtime/fragment/split.h"
#include "runtime/plan/box.h"
#include "runtime/plan/layout.h"
#include "runtime/plan/mesh.h"

namespace lockstep::fragment {

// What is passed for one argument.
struct Input {
  DType dtype = DType::kFloat32;
  Shape shape;  // of the whole tensor
  Split split = Split::kNone;
  // Where it lies. None: it comes from the client; with kAsPlaced, each worker has a tensor of its
  // own, and all are of this shape.
  std::optional<plan::Layout> layout = {};
  // Of a module's function: whatever each worker has in its register, which it looks at by itself.
  // All else counts for nothing then.
  bool as_it_is = false;
  // Where each worker has its own, or it is taken as it is: the ranks that have any, ascending; the
  // others have a tensor without elements. Empty: all have one.
  std::vector<Rank> holders = {};
};

// What is to become of one result:
//
//     {Combine::kAdd}                                 what is compiled tells the rest
//     {Combine::kRows, Shape{10}, DType::kFloat64}    of a module's function, which states nothing
struct Output {
  Combine combine = Combine::kNone;
  // Of the whole tensor, or, of those that each worker keeps, of each: where the fragment does not
  // tell it.
  std::optional<Shape> shape = {};
  // Of a module's function; of others nothing, or what they state.
  std::optional<DType> dtype = {};

  bool operator==(const Output&) const = default;
};

// What a module's function is taken for in this call, since it states nothing: it takes what it is
// given, and gives what is expected of it. kInvalidArgument: an output does not say shape and
// dtype.
StatusOr<Signature> SignatureOfFunction(const std::string& function,
                                        const std::vector<Input>& inputs,
                                        const std::vector<Output>& outputs);

// A worker without a part of any argument that is dealt out, or that workers have of their own,
// does not call the fragment. It contributes no rows or columns, the identity element to what
// is added, multiplied or compared, and has an empty tensor of what each worker keeps. One that has
// a part of some of them is given empty tensors for the others. If nothing is there to deal out,
// the first worker calls with nothing: a sum of nothing is what the fragment says it is.
//
// Workers are numbered by their place in `ranks`: that is their *index*. Immutable. Threads: any.
class PlacedCall {
 public:
  // kInvalidArgument, with the number of the argument or result (from 0): too many or too few of
  // them; another dtype or number of dimensions; a split or combine that does not fit these; a part
  // of a size that the fragment does not take, and the rank that would get it; a tensor that cannot
  // be brought to where it is needed (plan::CheckReshard); results that would be the same on all
  // workers, or on some of them, and are added up or put together; parts that lie in another order
  // than ranks, and are put together; a result whose shape is neither known nor given.
  static StatusOr<PlacedCall> Make(Kind kind, Signature signature, std::vector<Rank> ranks,
                                   std::vector<Input> inputs, std::vector<Output> outputs);

  const Signature& signature() const { return signature_; }
  const std::vector<Input>& inputs() const { return inputs_; }
  const std::vector<Output>& outputs() const { return outputs_; }
  // Of one axis.
  const plan::Mesh& workers() const { return workers_; }

  // How an argument has to lie before the call. None: each worker has a tensor of its own.
  const std::optional<plan::Layout>& ArgumentLayout(int argument) const {
    return layouts_[static_cast<size_t>(argument)];
  }
  // What of the whole tensor a worker is given: its offset, and its shape.
  plan::Box PartAt(int argument, int index) const;
  // Whether the worker has any of an argument of which each has its own; of others, true.
  bool Holds(int argument, int index) const;
  // Whether the worker calls the fragment: at least one does.
  bool Calls(int index) const { return calls_[static_cast<size_t>(index)]; }

  // What a result has on this worker, as far as that is known without the compiled fragment: stated
  // by it, or given by the caller. Of a worker that calls it.
  std::optional<Shape> KnownShape(int result, int index) const;
  // Whether each worker keeps a result of its own, of any shape: it has no layout. Those that do
  // not call have none of it.
  bool IsKept(int result) const;

  // The layout of a result, given its shape on each worker (by index; those of workers that do not
  // call do not count). None: each worker keeps its own. kInvalidArgument: the shapes do
  // not fit the signature or what the caller has asked for, or one another.
  StatusOr<std::optional<plan::Layout>> ResultLayout(int result,
                                                     absl::Span<const Shape> shapes) const;

 private:
  PlacedCall(Kind kind, Signature signature, plan::Mesh workers, std::vector<Input> inputs,
             std::vector<Output> outputs);

  Status PlaceArgument(int argument);
  Status CheckHolders(const Input& input) const;
  void ChooseCallers();
  // Of an argument that is dealt out.
  bool LacksPart(int argument, int index) const;
  Status CheckPartsOf(int argument) const;
  Status CheckResult(int result) const;
  Status CheckGivenShape(int result) const;
  Status CheckShapes(int result, absl::Span<const Shape> shapes) const;
  StatusOr<plan::Layout> PutTogether(int result, int dimension,
                                     absl::Span<const Shape> shapes) const;
  // The part of `count` that goes to each worker: as that of an argument that is dealt out and has
  // as much, or even among those that call.
  std::vector<int64_t> DealOut(int64_t count) const;
  int FirstCaller() const;

  Kind kind_;
  Signature signature_;
  plan::Mesh workers_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<std::optional<plan::Layout>> layouts_;  // by argument
  std::vector<bool> calls_;                           // by index
  bool nobody_has_a_part_ = false;                    // of anything that is dealt out
};

}  // namespace lockstep::fragment
