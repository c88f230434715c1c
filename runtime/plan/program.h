// Programs: what a plan is made from. Calls of worker functions on tensors with layouts, and what
// moves or copies tensors between them, in the order in which they happen.
//
//     ProgramBuilder program;
//     const ValueId x = program.Input("x", rows);
//     const ValueId y = program.Call("relu", {Read(x)}, rows);
//     program.Output("y", program.Reshard(y, columns));
//     LOCKSTEP_ASSIGN_OR_RETURN(const Program built, program.Build());
//
// Pure: functions are names, which are bound to registers later (Session::Bind).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/plan/collective.h"
#include "runtime/plan/cut.h"
#include "runtime/plan/layout.h"

namespace lockstep::plan {

// Number of a value of one program.
enum class ValueId : int {};
constexpr ValueId kNoValue{-1};

// What a call passes as it is.
using Literal = std::variant<bool, int64_t, double, std::string, Shape, DType>;

// One argument of a call: a literal, or this rank's tile of a value.
struct CallArgument {
  enum class Use : uint8_t {
    kLiteral,
    kRead,    // the function only reads it
    kWrite,   // the function writes all of it, whatever was there
    kUpdate,  // the function reads it, and may write to it
  };
  Use use = Use::kLiteral;
  ValueId value = kNoValue;
  Literal literal;

  bool writes() const { return use == Use::kWrite || use == Use::kUpdate; }
  bool reads() const { return use == Use::kRead || use == Use::kUpdate; }
  bool operator==(const CallArgument&) const = default;
};
inline CallArgument Read(ValueId value) { return {CallArgument::Use::kRead, value, {}}; }
inline CallArgument Write(ValueId value) { return {CallArgument::Use::kWrite, value, {}}; }
inline CallArgument Update(ValueId value) { return {CallArgument::Use::kUpdate, value, {}}; }
inline CallArgument Pass(Literal literal) {
  return {CallArgument::Use::kLiteral, kNoValue, std::move(literal)};
}

// A promise, and a wish: what a function makes of some rows of one argument does not depend on the
// other rows, so it may be called for some after the others. Lowering does so (chunks.h), for what
// ranks exchange for some of them to go on meanwhile.
struct Chunks {
  static constexpr int kMost = 64;
  int count = 1;
  int argument = 0;      // its number, from 0 on
  int along = 0;         // which dimension of the argument's tile its rows are
  int result_along = 0;  // and which of the result's, that are as many
  bool operator==(const Chunks&) const = default;
};

// Calls a function on the ranks that hold its tensors.
struct CallOp {
  int function = 0;  // of Program::functions()
  std::vector<CallArgument> arguments;
  ValueId result = kNoValue;  // what it returns: its tile of this value
  std::optional<Chunks> chunks = std::nullopt;
  int part_of = 1;  // lowering makes so many calls of one that is done in chunks
  bool operator==(const CallOp&) const = default;
};

// Brings a value into another layout.
struct ReshardOp {
  ValueId source = kNoValue;
  ValueId result = kNoValue;
  bool operator==(const ReshardOp&) const = default;
};

// Takes each rank's tile for its tile of another value, perhaps of another layout: a copy that is
// not made where no one could tell.
struct ViewOp {
  ValueId source = kNoValue;
  ValueId result = kNoValue;
  bool operator==(const ViewOp&) const = default;
};

// One collective, just as it says: lowering neither merges it with others nor finds another way.
struct CollectiveOp {
  Collective what;
  ValueId source = kNoValue;
  ValueId result = kNoValue;  // its layout: LayoutsOf()
  bool operator==(const CollectiveOp&) const = default;
};

// Takes one chunk of each rank's tile, or puts it there. Only lowering makes it (chunks.h), and a
// program that has it is not sent.
struct ChunkOp {
  ValueId source = kNoValue;
  ValueId result = kNoValue;
  bool puts = false;  // the source is the chunk, and the result is written nowhere else
  int dim = 0;
  int number = 0;  // of the chunk
  std::shared_ptr<const Cut> cut = nullptr;

  ValueId whole() const { return puts ? result : source; }
  ValueId chunk() const { return puts ? source : result; }
  bool operator==(const ChunkOp& other) const {
    return source == other.source && result == other.result && puts == other.puts &&
           dim == other.dim && number == other.number && *cut == *other.cut;
  }
};

struct ProgramOp {
  std::variant<CallOp, ReshardOp, ViewOp, CollectiveOp, ChunkOp> what;
  std::string where;  // "train.cc:12": which line of a person's it comes from

  // Nothing of a call; else from which value the operation makes which other one.
  struct Ends {
    ValueId source;
    ValueId result;
  };
  std::optional<Ends> ends() const;
  bool operator==(const ProgramOp&) const = default;
};

struct ProgramValue {
  std::string name;  // of inputs and outputs; else empty
  Layout layout;
  // Of what lowering makes for one chunk of another value: which value, and which chunk.
  ValueId chunk_of = kNoValue;
  int chunk = 0;
  bool operator==(const ProgramValue&) const = default;
};

// Immutable. Threads: any.
class Program {
 public:
  // More are refused: a plan that one command makes stays within bounds.
  static constexpr size_t kMaxOps = 1 << 12;
  static constexpr size_t kMaxValues = 1 << 13;
  static constexpr size_t kMaxArguments = 256;  // of one call
  // Its format, and what lowering makes of it: ranks that disagree about it must not meet.
  static constexpr uint32_t kVersion = 4;

  struct Parts {
    std::vector<ProgramValue> values;
    std::vector<ValueId> inputs;
    std::vector<ValueId> outputs;
    std::vector<std::string> functions;
    std::vector<ProgramOp> ops;
    bool operator==(const Parts&) const = default;
  };
  // kInvalidArgument names the line that is wrong, and why: a value that there is not, or that is
  // read before anything was written to it, or written twice by results; a call whose tensors are
  // held by different ranks, or that has none; a reshard that CheckReshard() refuses, a view that
  // CheckSameTiles() refuses, a collective that LayoutsOf() refuses or whose result has another
  // layout; a call in chunks that ChunkCalls() refuses; an output that is an input, or two of one
  // name; too much of anything.
  // Messages call values by `value_names`, where there is one for the number; else by their own
  // names, or numbers.
  static StatusOr<Program> Make(Parts parts, const std::vector<std::string>& value_names = {});
  // The same of a program with operations that only lowering makes.
  static StatusOr<Program> MakeLowered(Parts parts,
                                       const std::vector<std::string>& value_names = {});

  const std::vector<ProgramValue>& values() const { return parts_.values; }
  const ProgramValue& value(ValueId id) const { return parts_.values[static_cast<size_t>(id)]; }
  const std::vector<ValueId>& inputs() const { return parts_.inputs; }
  const std::vector<ValueId>& outputs() const { return parts_.outputs; }
  const std::vector<std::string>& functions() const { return parts_.functions; }
  const std::vector<ProgramOp>& ops() const { return parts_.ops; }
  const Parts& parts() const { return parts_; }
  // Ascending: which ranks execute the call.
  std::vector<Rank> RanksOf(const CallOp& call) const;
  // Ascending: those of all meshes.
  std::vector<Rank> Ranks() const;
  // For each value: whether a call writes to it (kWrite, kUpdate).
  std::vector<bool> WrittenValues() const;
  bool operator==(const Program&) const = default;

 private:
  explicit Program(Parts parts) : parts_(std::move(parts)) {}
  Parts parts_;
};

// Where a person wrote something: the line of the caller, if it is a default argument; nowhere, if
// it is empty.
struct SourceLine {
  static SourceLine Here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  const char* file = "";
  int line = 0;
};

// Makes programs. The first error is kept for Build(); what comes after it means nothing.
class ProgramBuilder {
 public:
  // A tensor that the program is given, as it lies in a register on each rank of the mesh.
  ValueId Input(std::string_view name, const Layout& layout);
  // A tensor that calls write to: what is in it before is not defined.
  ValueId Make(const Layout& layout);
  // Calls a function that returns its tile of the result, in memory of its own.
  ValueId Call(std::string_view function, std::vector<CallArgument> arguments, const Layout& result,
               SourceLine where = SourceLine::Here());
  // The same, chunk by chunk, if that is possible, else Build() fails.
  ValueId CallInChunks(std::string_view function, std::vector<CallArgument> arguments,
                       const Layout& result, const Chunks& chunks,
                       SourceLine where = SourceLine::Here());
  // Calls a function for what it writes into its arguments.
  void Call(std::string_view function, std::vector<CallArgument> arguments,
            SourceLine where = SourceLine::Here());
  ValueId Reshard(ValueId source, const Layout& layout, SourceLine where = SourceLine::Here());
  // A value of its own, with what is in the source now: later writes to either leave the other.
  ValueId Copy(ValueId source, SourceLine where = SourceLine::Here());
  // The same, with each rank's tile taken for its tile of this layout: of the same dtype and
  // extents. Nothing moves. The layout's ranks are some of the source's, or all.
  ValueId As(ValueId source, const Layout& layout, SourceLine where = SourceLine::Here());

  // Collectives along one axis of the source's mesh (collective.h), just as they are asked for. The
  // result's layout is what the collective makes of the source's: LayoutOf() has it.
  ValueId AllReduce(ValueId source, std::string_view axis, Reduction op,
                    SourceLine where = SourceLine::Here());
  ValueId ReduceScatter(ValueId source, std::string_view axis, int dim, Reduction op,
                        SourceLine where = SourceLine::Here());
  ValueId AllGather(ValueId source, std::string_view axis, SourceLine where = SourceLine::Here());
  ValueId AllToAll(ValueId source, std::string_view axis, int dim,
                   SourceLine where = SourceLine::Here());
  ValueId Broadcast(ValueId source, std::string_view axis, int root,
                    SourceLine where = SourceLine::Here());
  // The same, however it was chosen.
  ValueId Do(Collective what, ValueId source, SourceLine where = SourceLine::Here());

  // The value, as it is at the end, is a result of the program.
  void Output(std::string_view name, ValueId value);

  // Of a value that this builder has made; of another, any, and Build() fails if it is used.
  Layout LayoutOf(ValueId value) const;

  // The errors of Program::Make().
  StatusOr<Program> Build(const std::vector<std::string>& value_names = {}) const {
    return Program::Make(parts_, value_names);
  }

 private:
  ValueId Add(std::string name, const Layout& layout);
  int FunctionNumber(std::string_view name);

  Program::Parts parts_;
};

}  // namespace lockstep::plan
