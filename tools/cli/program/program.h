// A program file after reading: what `lockstep run` executes, step by step.
//
// docs/program-file.md is the description for people; vocabulary.h lists steps and their keys.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/operations.h"
#include "runtime/base/shape.h"
#include "runtime/client/session.h"
#include "runtime/control/value.h"
#include "runtime/plan/lowering/topology.h"
#include "runtime/plan/program.h"
#include "tools/cli/argument.h"
#include "tools/cli/tensor_text.h"

namespace lockstep::cli::program {

struct LoadStep {
  std::string path;
};

struct EmptyStep {
  EmptyTensor tensor;
  std::optional<Rank> only_rank;
};

// A tensor of the file's own; on worker-0 alone, or on every worker.
struct ValuesStep {
  HostTensor tensor;
  bool worker0_only = false;
};

// `full`, `arange` and `call`: a function on every worker.
struct CallStep {
  std::string module;  // a register that holds a module; empty: a built-in function
  std::string function;
  std::vector<Argument> args;
};

struct CollectiveStep {
  OperationKind kind = OperationKind::kBarrier;
  std::string source;  // empty: the kind takes none
  Reduction op = Reduction::kSum;
  Rank root = 0;
  Rank from = 0;  // kTransfer
  Rank to = 0;    // kTransfer
  bool in_group = false;
  std::vector<Rank> team;
  std::string destination;  // a register that receives the result; empty: a new tensor
};

// Replaces what a register holds on one rank.
struct SetStep {
  std::string target;
  Rank rank = 0;
  Value value;
};

struct FreeStep {
  std::vector<std::string> targets;
};

struct SyncStep {
  std::optional<Rank> rank;  // nothing: all ranks
};

// The ranks that a step looks at; nothing: all on which the register has a value.
using RankChoice = std::optional<std::vector<Rank>>;

struct PrintStep {
  std::string source;
  RankChoice ranks;
  std::string label;  // the register's name if empty
};

// What a rank's value is compared with. A single number stands for every element of a tensor.
using ExpectedValue = std::variant<NumberArray, Value>;

struct ExpectStep {
  std::string source;
  RankChoice ranks;
  std::optional<ExpectedValue> value;
  std::vector<ExpectedValue> per_rank;  // value of rank 0, 1, ...; excludes `value` and `ranks`
  std::optional<Shape> shape;
  std::optional<DType> dtype;
  double tolerance = 0;  // |actual - expected| <= tolerance * max(1, |expected|)
};

// Executes the program file's plan. Of inputs and outputs: registers, by the plan's names for them;
// those that are not here are called as in the plan.
struct ExecuteStep {
  int64_t times = 1;
  std::map<std::string, std::string> inputs;
  std::map<std::string, std::string> outputs;

  static const std::string& RegisterOf(const std::string& name,
                                       const std::map<std::string, std::string>& renamed) {
    const auto found = renamed.find(name);
    return found == renamed.end() ? name : found->second;
  }
};

struct Step;

struct RepeatStep {
  int64_t times = 0;
  std::vector<Step> body;
};

struct Step {
  int line = 0;         // in the file, from 1
  std::string number;   // "3", or "3.2" for the second step of a repeat's body
  std::string summary;  // "allreduce x"
  std::string result;   // name of the register that is made; empty: none
  // False: something is wrong with it, and all that is known is what it would have been called and
  // what it would have made. Such a program is not executed.
  bool readable = true;
  std::variant<LoadStep, EmptyStep, ValuesStep, CallStep, CollectiveStep, SetStep, FreeStep,
               SyncStep, PrintStep, ExpectStep, ExecuteStep, RepeatStep>
      action;

  // "step 3 (allreduce x)"
  std::string Title() const { return "step " + number + " (" + summary + ")"; }
};

// The section `plan` (tools/cli/plan/plan_file.h).
struct PlanSection {
  // Null: something is wrong with it, which is reported.
  std::shared_ptr<const plan::Program> program;
  // The names of its outputs, also of one that is wrong: they are not to be missed as well.
  std::vector<std::string> outputs;
  // By function: the register of the module that has it. Those that are not here are built in.
  std::map<std::string, std::string> modules;
  // By function: the file of the fragment that it is, as a path from here.
  std::map<std::string, std::string> fragments = {};
  // For `lockstep plan explain`: values by their numbers, and which ranks share a node.
  std::vector<std::string> value_names;
  plan::Topology topology;
};

struct Program {
  std::string file;  // as the user named it
  std::string name;
  std::optional<int> workers;  // how many it needs; nothing: any number
  int groups = 1;
  std::chrono::milliseconds timeout{600'000};
  std::optional<PlanSection> plan;
  std::vector<Step> steps;

  // Steps that are executed, those of repeats counted each time.
  uint64_t NumExecuted() const;
};

}  // namespace lockstep::cli::program
