// Values as people write them: arguments of `lockstep call`, and of `call` in a program file.
//
// The type follows from the way it is written (docs/cli.md has the table for people):
//   3  0x10  -7         int64            [2, 3]  []          shape
//   1.5  2e-3  inf      float64          [1, "a", [2]]       list (`!list [2, 3]` forces one)
//   true  false         bool             {a: 1, b: x}        map, keys are text
//   none  ~             none             f32[2,2]=1,2,3,4    tensor; one number fills it
//   "text"  text:word   text             !f32 [[1, 2], [3]]  tensor, its shape from the nesting
//   hex:00ff            bytes            f32[2,2]            tensor on the workers, uninitialised
//   f32  bfloat16       dtype            npy:FILE            tensor from a .npy file
//   cpu  cuda:1         device           $x                  the register x (program files only)
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/client/session.h"
#include "runtime/control/value.h"
#include "tools/cli/tensor_text.h"

namespace YAML {
class Node;
}

namespace lockstep::cli {

// An uninitialised tensor that every worker makes for itself.
struct EmptyTensor {
  DType dtype = DType::kFloat32;
  Shape shape;
  bool operator==(const EmptyTensor&) const = default;
};

// A register of the program, by its name there.
struct RegisterReference {
  std::string name;
  bool operator==(const RegisterReference&) const = default;
};

using Argument = std::variant<Value, EmptyTensor, RegisterReference>;

// `text` as typed on a command line. Files are relative to the working directory.
StatusOr<Argument> ParseArgument(const std::string& text);

// The same of a YAML value. Quoted scalars are text. Files are relative to `directory`.
StatusOr<Argument> ReadArgument(const YAML::Node& node, const std::string& directory);

// As ReadArgument(), where only a value makes sense: no register and no uninitialised tensor.
StatusOr<Value> ReadValue(const YAML::Node& node, const std::string& directory);

// Nested lists of numbers, all of one length per level; a number alone has rank 0.
// kInvalidArgument: ragged, or something that is no number.
StatusOr<NumberArray> ReadNumbers(const YAML::Node& node);

// Calls `function` with `arguments`. Uninitialised tensors are made on every worker first;
// `find_register` gives the registers that arguments name.
StatusOr<DRef> CallWithArguments(Session& session, const DRef& function,
                                 const std::vector<Argument>& arguments,
                                 const std::function<DRef(const std::string&)>& find_register);

}  // namespace lockstep::cli
