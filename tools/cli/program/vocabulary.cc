#include "tools/cli/program/vocabulary.h"

namespace lockstep::cli::program {
namespace {

constexpr KeySpec kDType = {"dtype", "dtype", "element type; f32 if not given"};
constexpr KeySpec kOp = {"op", "sum, prod, min, max or avg", "the reduction; sum if not given"};
constexpr KeySpec kRoot = {"root", "rank", "of the group or team, or of the world; 0 if not given"};
constexpr KeySpec kInGroup = {"in_group", "true or false", "inside each group"};
constexpr KeySpec kTeam = {"team", "list of ranks", "only these take part, in this order"};
constexpr KeySpec kInto = {"into", "register", "receives the result instead of a new tensor"};
constexpr KeySpec kLookAt = {"rank", "rank, list of ranks, or all",
                             "where to look; everywhere it has a value if not given"};

}  // namespace

const std::vector<VerbSpec>& Vocabulary() {
  static const auto* const kVerbs = new std::vector<VerbSpec>{
      {"load", "path", "Loads a module (a library of the tvm-ffi ABI) on every worker.", {}, true},
      {"empty",
       "shape",
       "Makes an uninitialised tensor.",
       {kDType, {"only_rank", "rank", "the only worker that makes it"}},
       true},
      {"full",
       "shape",
       "Makes a tensor filled with one value.",
       {{"value", "number or $register", "of every element; required"}, kDType},
       true},
      {"arange",
       "end, or [begin, end], or [begin, end, step]",
       "Makes a 1-d tensor of evenly spaced numbers; the end is excluded.",
       {kDType},
       true},
      {"values",
       "nested lists of numbers",
       "Makes a tensor of these numbers.",
       {kDType, {"worker0", "true or false", "on worker-0 only, to be scattered or broadcast"}},
       true},
      {"npy",
       "path, relative to the program file",
       "Makes a tensor from a NumPy file, on worker-0 only.",
       {},
       true},
      {"call",
       "function",
       "Calls a built-in function, or one of a module, on every worker.",
       {{"args", "list of arguments", "values, or $NAME for a register"},
        {"module", "register", "the module that has the function"}},
       true},
      {"allreduce",
       "register",
       "Reduces over all ranks; every rank gets the result.",
       {kOp, kInGroup, kTeam, kInto},
       true},
      {"reduce",
       "register",
       "Reduces over all ranks; the root gets the result.",
       {kOp, kRoot, kInGroup, kTeam, kInto},
       true},
      {"broadcast",
       "register",
       "Copies the root's tensor to every rank.",
       {kRoot, kInGroup, kTeam, kInto},
       true},
      {"scatter",
       "register",
       "Deals the rows of the root's tensor out, as evenly as possible.",
       {kRoot, kInGroup, kTeam, kInto},
       true},
      {"gather",
       "register",
       "Joins all ranks' rows on the root.",
       {kRoot, kInGroup, kTeam, kInto},
       true},
      {"allgather",
       "register",
       "Joins all ranks' rows on every rank.",
       {kInGroup, kTeam, kInto},
       true},
      {"reduce_scatter",
       "register",
       "Reduces over all ranks and deals the rows of the result out.",
       {kOp, kInGroup, kTeam, kInto},
       true},
      {"all_to_all",
       "register",
       "Part p of rank r's rows becomes part r of rank p's result.",
       {kInGroup, kTeam, kInto},
       true},
      {"barrier",
       "nothing",
       "No rank goes on before all have come here.",
       {kInGroup, kTeam},
       false},
      {"transfer",
       "register",
       "Sends a tensor from one worker to another.",
       {{"from", "rank", "the sender; required"}, {"to", "rank", "the receiver; required"}, kInto},
       true},
      {"send_to_next_group",
       "register",
       "Each rank sends to the same place in the next group; the last group sends nothing.",
       {},
       false},
      {"receive_from_previous_group",
       "nothing",
       "The other half of send_to_next_group; the first group receives nothing.",
       {kInto},
       true},
      {"set",
       "register",
       "Replaces what the register holds on one rank.",
       {{"rank", "rank", "required"}, {"value", "value", "required"}},
       false},
      {"free", "register, or list of registers", "Frees registers on all workers.", {}, false},
      {"sync",
       "nothing, or a rank",
       "Waits until all workers, or one, have done everything.",
       {},
       false},
      {"print",
       "register",
       "Prints values.",
       {kLookAt, {"label", "text", "instead of the register's name"}},
       false},
      {"expect",
       "register",
       "Compares values; the program goes on, and ends with exit code 4 if one differs.",
       {kLookAt,
        {"value", "value", "on each of the ranks; one number stands for all elements"},
        {"per_rank", "list of values", "the value of rank 0, 1, ..."},
        {"shape", "shape", "of the tensor"},
        {"dtype", "dtype", "of the tensor"},
        {"tolerance", "number", "allowed |actual - value| / max(1, |value|); 0 if not given"}},
       false},
      {"execute",
       "plan",
       "Executes the program of the section `plan`; its outputs are registers then.",
       {{"times", "count", "how often; once if not given"},
        {"inputs", "names and registers", "registers of the plan's inputs; those of their names"},
        {"outputs", "names and registers", "registers for its outputs; those of their names"}},
       false},
      {"repeat",
       "count",
       "Executes its steps this many times.",
       {{"steps", "list of steps", "required"}},
       false},
  };
  return *kVerbs;
}

const std::vector<KeySpec>& TopLevelKeys() {
  static const auto* const kKeys = new std::vector<KeySpec>{
      {"name", "text", "shown by `lockstep status`; the file's name if not given"},
      {"workers", "count", "how many workers it is written for; any number if not given"},
      {"groups", "count", "equal contiguous groups that ranks are split into; 1 if not given"},
      {"timeout", "duration", "longest wait of any one step, as in 30s; 10min if not given"},
      {"plan", "plan", "a program that is lowered once, for the step `execute`"},
      {"steps", "list of steps", "required"},
  };
  return *kKeys;
}

const VerbSpec* FindVerb(std::string_view name) {
  for (const VerbSpec& verb : Vocabulary()) {
    if (verb.name == name) return &verb;
  }
  return nullptr;
}

}  // namespace lockstep::cli::program
