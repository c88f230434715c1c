#include "runtime/plan/chunks.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

namespace lockstep::plan {
namespace {

// Who reads and writes each value, by the numbers of operations.
class Uses {
 public:
  explicit Uses(const Program& program) : of_(program.values().size()) {
    for (const ValueId id : program.inputs()) At(id).is_outside = true;
    for (const ValueId id : program.outputs()) At(id).is_outside = true;
    for (size_t i = 0; i < program.ops().size(); ++i) {
      if (const auto ends = program.ops()[i].ends()) {
        At(ends->source).reads.push_back(i);
        At(ends->result).writes.push_back(i);
        continue;
      }
      const auto& call = std::get<CallOp>(program.ops()[i].what);
      for (const CallArgument& argument : call.arguments) {
        if (argument.reads()) At(argument.value).reads.push_back(i);
        if (argument.writes()) At(argument.value).writes.push_back(i);
      }
      if (call.result != kNoValue) At(call.result).writes.push_back(i);
    }
  }

  // The operation that makes it, if that is the only one to write to it, and `reader` the only one
  // to read it, once.
  std::optional<size_t> MakerFor(ValueId id, size_t reader) const {
    const Of& of = At(id);
    if (of.is_outside || of.writes.size() != 1 || of.reads != std::vector<size_t>{reader}) {
      return std::nullopt;
    }
    return of.writes.front();
  }
  // The same, from what makes it.
  std::optional<size_t> ReaderFrom(ValueId id, size_t maker) const {
    const Of& of = At(id);
    if (of.is_outside || of.reads.size() != 1 || of.writes != std::vector<size_t>{maker}) {
      return std::nullopt;
    }
    return of.reads.front();
  }
  // Something is written to it by an operation after `first`, and before `last`.
  bool IsWrittenBetween(ValueId id, size_t first, size_t last) const {
    const std::vector<size_t>& writes = At(id).writes;
    return std::any_of(writes.begin(), writes.end(),
                       [&](size_t op) { return op > first && op < last; });
  }

 private:
  struct Of {
    std::vector<size_t> reads;
    std::vector<size_t> writes;
    bool is_outside = false;  // an input or output
  };
  Of& At(ValueId id) { return of_[static_cast<size_t>(id)]; }
  const Of& At(ValueId id) const { return of_[static_cast<size_t>(id)]; }
  std::vector<Of> of_;
};

// Calls that chunks go through, by their operations, and the reshards around them.
struct Chain {
  std::vector<size_t> calls;
  std::optional<size_t> before;
  std::optional<size_t> after;
  bool is_between = false;  // what it reads is what another chain exchanges, chunk by chunk
};

class ChunkPass {
 public:
  ChunkPass(const Program& program, const IsSameInChunks& is_same)
      : program_(program), is_same_(is_same), uses_(program), parts_(program.parts()) {
    parts_.ops.clear();
  }

  StatusOr<ChunkedProgram> Run() {
    FindChains();
    for (size_t i = 0; i < ops().size(); ++i) {
      const auto chain = std::find_if(chains_.begin(), chains_.end(),
                                      [&](const Chain& one) { return one.calls.back() == i; });
      if (chain != chains_.end()) {
        const Status status = Expand(*chain);
        if (!status.ok()) return Annotate(status, Name(*chain));
      } else if (!is_in_chain_[i]) {
        parts_.ops.push_back(ops()[i]);
      }
      // As soon as it is too much.
      if (parts_.ops.size() <= Program::kMaxOps && parts_.values.size() <= Program::kMaxValues) {
        continue;
      }
      return Annotate(
          InvalidArgument("up to here, the program in chunks has ", parts_.ops.size(),
                          " operations and ", parts_.values.size(), " values, and may have ",
                          Program::kMaxOps, " and ", Program::kMaxValues, "; make fewer chunks"),
          ops()[i].where);
    }
    StatusOr<Program> made = Program::MakeLowered(std::move(parts_));
    if (!made.ok()) return Annotate(made.status(), "in chunks");
    return ChunkedProgram{*std::move(made), std::move(said_)};
  }

 private:
  const std::vector<ProgramOp>& ops() const { return program_.ops(); }
  const CallOp& CallAt(size_t op) const { return std::get<CallOp>(ops()[op].what); }
  const Layout& LayoutOf(ValueId id) const { return program_.value(id).layout; }
  // What the chunks of a call are read from.
  ValueId InputOf(const CallOp& call) const {
    return call.arguments[static_cast<size_t>(call.chunks->argument)].value;
  }
  std::string Name(const Chain& chain) const {
    const ProgramOp& last = ops()[chain.calls.back()];
    const auto function = static_cast<size_t>(CallAt(chain.calls.back()).function);
    return (last.where.empty() ? "" : last.where + ": ") + program_.functions()[function] +
           " in chunks";
  }

  void FindChains() {
    is_in_chain_.resize(ops().size());
    for (size_t i = 0; i < ops().size(); ++i) {
      const auto* const call = std::get_if<CallOp>(&ops()[i].what);
      if (call == nullptr || !call->chunks.has_value() || call->chunks->count == 1) continue;
      if (!Prolong(i)) chains_.push_back({{i}, std::nullopt, std::nullopt});
    }
    for (Chain& chain : chains_) FindReshards(chain);
    ShareReshards();
    for (const Chain& chain : chains_) {
      for (const size_t op : chain.calls) is_in_chain_[op] = true;
      for (const auto& op : {chain.before, chain.after}) {
        if (op.has_value()) is_in_chain_[*op] = true;
      }
    }
  }

  // The call reads, chunk by chunk, what the last call of a chain returns for it alone.
  bool Prolong(size_t op) {
    const CallOp& call = CallAt(op);
    const std::optional<size_t> maker = uses_.MakerFor(InputOf(call), op);
    for (Chain& chain : chains_) {
      if (chain.calls.back() != maker) continue;
      const Chunks& before = *CallAt(*maker).chunks;
      if (before.count != call.chunks->count || before.result_along != call.chunks->along) {
        return false;
      }
      // All of them are called where the last one is.
      for (const size_t earlier : chain.calls) {
        for (const CallArgument& argument : CallAt(earlier).arguments) {
          if (argument.reads() && uses_.IsWrittenBetween(argument.value, earlier, op)) return false;
        }
      }
      chain.calls.push_back(op);
      return true;
    }
    return false;
  }

  void FindReshards(Chain& chain) {
    const size_t first = chain.calls.front();
    const size_t last = chain.calls.back();
    const auto before = uses_.MakerFor(InputOf(CallAt(first)), first);
    if (before.has_value()) {
      const auto* const reshard = std::get_if<ReshardOp>(&ops()[*before].what);
      if (reshard != nullptr && !uses_.IsWrittenBetween(reshard->source, *before, last)) {
        chain.before = before;
      }
    }
    const auto after = uses_.ReaderFrom(CallAt(last).result, last);
    if (after.has_value() && std::holds_alternative<ReshardOp>(ops()[*after].what)) {
      chain.after = after;
    }
  }

  // What lies between two chains goes to the first, unless that leaves the second with nothing.
  void ShareReshards() {
    for (Chain& chain : chains_) {
      for (Chain& next : chains_) {
        if (!chain.after.has_value() || chain.after != next.before) continue;
        if (chain.before.has_value() && !next.after.has_value()) {
          chain.after.reset();
        } else {
          next.before.reset();
          next.is_between = true;
        }
      }
    }
  }

  // A value of the chain, and the dimension that its chunks are of.
  LayoutAlong Along(ValueId id, int dim) const { return {&LayoutOf(id), dim}; }

  // The rows of what a call reads and returns are the same ones, on each rank.
  Status CheckRows(const CallOp& call) const {
    const Layout& read = LayoutOf(InputOf(call));
    const Layout& returned = LayoutOf(call.result);
    const int along = call.chunks->along;
    const int result_along = call.chunks->result_along;
    for (const Rank rank : read.mesh().ranks()) {
      const Box in = read.TileAt(*read.mesh().IndexOf(rank));
      const Box out = returned.TileAt(*returned.mesh().IndexOf(rank));
      if (in.begin[along] == out.begin[result_along] &&
          in.extents[along] == out.extents[result_along]) {
        continue;
      }
      const auto text = [](const Box& box, int dim) {
        return std::to_string(box.begin[dim]) + " to " +
               std::to_string(box.begin[dim] + box.extents[dim]);
      };
      return InvalidArgument("rank ", rank, " has ", text(in, along), " of dimension ", along,
                             " of what it reads, and ", text(out, result_along), " of dimension ",
                             result_along, " of what it returns; they have to be the same rows");
    }
    if (read.shape()[along] == returned.shape()[result_along]) return OkStatus();
    return InvalidArgument("what it reads has ", read.shape()[along], " rows, and what it returns ",
                           returned.shape()[result_along]);
  }

  // The values that hold the chunks of a value, of which there is one for each.
  using ChunkValues = std::vector<ValueId>;
  StatusOr<ChunkValues> MakeChunks(ValueId of, int dim) {
    ChunkValues chunks;
    for (int j = 0; j < cut_->count(); ++j) {
      const bool is_known = j > 0 && cut_->IsEven();
      LOCKSTEP_ASSIGN_OR_RETURN(
          Layout layout, is_known ? LayoutOfNew(chunks.front()) : cut_->ChunkOf(Along(of, dim), j));
      parts_.values.push_back({"", std::move(layout), of, j});
      chunks.push_back(static_cast<ValueId>(parts_.values.size() - 1));
    }
    return chunks;
  }
  StatusOr<Layout> LayoutOfNew(ValueId id) const {
    return parts_.values[static_cast<size_t>(id)].layout;
  }
  StatusOr<ReshardInChunks> Describe(const ReshardOp& reshard, const ChunkValues& from,
                                     const ChunkValues& to) const {
    ReshardInChunks described{LayoutOf(reshard.source), LayoutOf(reshard.result), {}, {}};
    for (const ValueId id : from) {
      described.chunks_from.push_back(parts_.values[static_cast<size_t>(id)].layout);
    }
    for (const ValueId id : to) {
      described.chunks_to.push_back(parts_.values[static_cast<size_t>(id)].layout);
    }
    return described;
  }

  // A reshard of the chain, with its chunks; none if it is done at once.
  struct Exchanges {
    size_t op = 0;
    ReshardOp reshard;
    int dim = 0;
    ChunkValues from;
    ChunkValues to;
  };
  StatusOr<std::optional<Exchanges>> MakeExchanges(const std::optional<size_t>& op, int dim,
                                                   std::optional<ReshardInChunks>& described,
                                                   ChunkedCalls& said) {
    if (!op.has_value()) return std::optional<Exchanges>();
    Exchanges made{*op, std::get<ReshardOp>(ops()[*op].what), dim, {}, {}};
    LOCKSTEP_ASSIGN_OR_RETURN(made.from, MakeChunks(made.reshard.source, dim));
    LOCKSTEP_ASSIGN_OR_RETURN(made.to, MakeChunks(made.reshard.result, dim));
    LOCKSTEP_ASSIGN_OR_RETURN(described, Describe(made.reshard, made.from, made.to));
    if (is_same_ != nullptr) {
      LOCKSTEP_ASSIGN_OR_RETURN(const bool is_same, is_same_(*described));
      if (!is_same) {
        described.reset();
        said.notes.push_back("the reshard at " + ops()[*op].where +
                             " is done at once: its chunks would be rounded otherwise");
        return std::optional<Exchanges>();
      }
    }
    return std::optional<Exchanges>(std::move(made));
  }

  void Add(decltype(ProgramOp::what) what, size_t from_op, int number) {
    const std::string& where = ops()[from_op].where;
    const std::string chunk =
        ", chunk " + std::to_string(number + 1) + " of " + std::to_string(cut_->count());
    parts_.ops.push_back({std::move(what), where.empty() ? "" : where + chunk});
  }

  Status Expand(const Chain& chain) {
    const CallOp& first = CallAt(chain.calls.front());
    const CallOp& last = CallAt(chain.calls.back());
    if (!chain.before.has_value() && !chain.after.has_value() && !chain.is_between) {
      return InvalidArgument(
          "neither what it reads comes from a reshard for it alone, nor goes what "
          "it returns to one reshard alone: there is nothing to exchange for one "
          "chunk beside the call for another (collectives along an axis, and reshards whose result "
          "something else reads, are done at once)");
    }
    std::vector<LayoutAlong> layouts;
    const auto cut_by = [&](ValueId id, int dim) { layouts.push_back(Along(id, dim)); };
    for (const size_t op : chain.calls) {
      const CallOp& call = CallAt(op);
      LOCKSTEP_RETURN_IF_ERROR(CheckRows(call));
      cut_by(InputOf(call), call.chunks->along);
      cut_by(call.result, call.chunks->result_along);
    }
    const int along = first.chunks->along;
    const int result_along = last.chunks->result_along;
    if (chain.before.has_value()) cut_by(ops()[*chain.before].ends()->source, along);
    if (chain.after.has_value()) cut_by(ops()[*chain.after].ends()->result, result_along);
    cut_ = std::make_shared<const Cut>(first.chunks->count, layouts);

    ChunkedCalls said{ops()[chain.calls.back()].where, cut_->count(), {}, {}, {}};
    if (chain.is_between && !chain.after.has_value()) {
      said.notes.push_back(
          "is called at once: the reshard before it is done in the chunks of what "
          "is called before that");
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<Exchanges> before,
                              MakeExchanges(chain.before, along, said.before, said));
    LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<Exchanges> after,
                              MakeExchanges(chain.after, result_along, said.after, said));
    // What is not done in chunks is done as it was.
    if (chain.before.has_value() && !before.has_value()) parts_.ops.push_back(ops()[*chain.before]);
    if (before.has_value() || after.has_value()) {
      LOCKSTEP_RETURN_IF_ERROR(AddChunks(chain, before, after));
    } else {
      for (const size_t op : chain.calls) parts_.ops.push_back(ops()[op]);
    }
    if (chain.after.has_value() && !after.has_value()) parts_.ops.push_back(ops()[*chain.after]);
    said_.push_back(std::move(said));
    return OkStatus();
  }

  // In the order of the list, a chunk is exchanged before the call for the one before it, so that
  // it goes on beside that; and what its calls return, right after them. What was exchanged is put
  // in its place after the calls for the next one, which need not wait for it.
  Status AddChunks(const Chain& chain, const std::optional<Exchanges>& before,
                   const std::optional<Exchanges>& after) {
    const CallOp& first = CallAt(chain.calls.front());
    const CallOp& last = CallAt(chain.calls.back());
    ChunkValues read;
    if (before.has_value()) {
      read = before->to;
    } else {
      LOCKSTEP_ASSIGN_OR_RETURN(read, MakeChunks(InputOf(first), first.chunks->along));
    }
    // What each call returns, by chunk.
    std::vector<ChunkValues> returned;
    for (const size_t op : chain.calls) {
      const bool is_exchanged = op == chain.calls.back() && after.has_value();
      returned.emplace_back();
      if (is_exchanged) {
        returned.back() = after->from;
        continue;
      }
      LOCKSTEP_ASSIGN_OR_RETURN(returned.back(),
                                MakeChunks(CallAt(op).result, CallAt(op).chunks->result_along));
    }
    const auto chunk_of = [](const ChunkValues& values, int j) {
      return values[static_cast<size_t>(j)];
    };
    const auto begin = [&](int j) {
      if (j >= cut_->count()) return;
      if (!before.has_value()) {
        return Add(Take(InputOf(first), chunk_of(read, j), first.chunks->along, j),
                   chain.calls.front(), j);
      }
      Add(Take(before->reshard.source, chunk_of(before->from, j), before->dim, j), before->op, j);
      Add(ReshardOp{chunk_of(before->from, j), chunk_of(before->to, j)}, before->op, j);
    };
    const auto put = [&](int j) {
      if (j < 0 || !after.has_value()) return;
      Add(Put(chunk_of(after->to, j), after->reshard.result, after->dim, j), after->op, j);
    };
    begin(0);
    for (int j = 0; j < cut_->count(); ++j) {
      begin(j + 1);
      for (size_t c = 0; c < chain.calls.size(); ++c) {
        CallOp call = CallAt(chain.calls[c]);
        call.arguments[static_cast<size_t>(call.chunks->argument)].value =
            chunk_of(c == 0 ? read : returned[c - 1], j);
        call.result = chunk_of(returned[c], j);
        call.chunks.reset();
        call.part_of = cut_->count();
        Add(std::move(call), chain.calls[c], j);
      }
      put(j - 1);
      if (after.has_value()) {
        Add(ReshardOp{chunk_of(after->from, j), chunk_of(after->to, j)}, after->op, j);
      } else {
        Add(Put(chunk_of(returned.back(), j), last.result, last.chunks->result_along, j),
            chain.calls.back(), j);
      }
    }
    put(cut_->count() - 1);
    return OkStatus();
  }
  ChunkOp Take(ValueId whole, ValueId chunk, int dim, int number) const {
    return {whole, chunk, false, dim, number, cut_};
  }
  ChunkOp Put(ValueId chunk, ValueId whole, int dim, int number) const {
    return {chunk, whole, true, dim, number, cut_};
  }

  const Program& program_;
  const IsSameInChunks& is_same_;
  const Uses uses_;
  Program::Parts parts_;  // of the program that is made
  std::vector<ChunkedCalls> said_;
  std::vector<Chain> chains_;
  std::vector<bool> is_in_chain_;   // by operation
  std::shared_ptr<const Cut> cut_;  // of the chain that is expanded
};

}  // namespace

StatusOr<ChunkedProgram> ChunkCalls(const Program& program, const IsSameInChunks& is_same) {
  return ChunkPass(program, is_same).Run();
}

}  // namespace lockstep::plan
