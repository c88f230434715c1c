// What `lockstep execute` is told of a fragment's inputs and results.
//
//   --input  [NAME=]VALUE[:SPLIT]              x=data.npy:rows   rate=0.5   f64[3]=1,2,3
//   --output NAME[[EXTENTS]][=FILE.npy][:COMBINE]   y:rows   y=out.npy:add   best[8,2]:rows
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/client/fragment_execution.h"
#include "runtime/control/value.h"
#include "runtime/fragment/signature.h"
#include "runtime/fragment/split.h"

namespace lockstep::cli {

struct GivenInput {
  std::string name;  // empty: known by its place
  std::variant<HostTensor, bool, int64_t, double> value;
  std::string text;  // VALUE as it was written
  fragment::Split split = fragment::Split::kNone;

  // Null: a number.
  const HostTensor* tensor() const { return std::get_if<HostTensor>(&value); }
};

struct GivenOutput {
  std::string name;
  std::string file;  // empty: it is shown
  fragment::Combine combine = fragment::Combine::kNone;
  std::optional<Shape> shape = {};
};

// Reads the files that are named. kInvalidArgument, kNotFound: with `text`.
StatusOr<GivenInput> ParseInput(const std::string& text);
StatusOr<GivenOutput> ParseOutput(const std::string& text);

// What a function of MLIR calls the arguments that a caller passes, by their places, without "%":
// not those for the part's offset and the whole tensor's extent. Empty where the text does not
// tell: it is bytecode, or its first function is not one that is read at a glance.
std::vector<std::string> ArgumentNames(std::string_view mlir);

// The inputs in the order of the arguments. Those with names are looked for among `names`; the
// others take the places that are left, in their order. If there are not as many names as
// arguments, the text does not tell them. kInvalidArgument: there is no such argument, or it is
// given twice; an input has a name, and the text tells none.
StatusOr<std::vector<GivenInput>> InArgumentOrder(std::vector<GivenInput> inputs,
                                                  const std::vector<std::string>& names,
                                                  const fragment::Signature& signature);

}  // namespace lockstep::cli
