// Session: one program's hold on a cluster. Read this header first.
//
// A session drives all workers of a cluster as one machine. Its calls are commands that every
// worker executes, in the order in which they were issued; they return at once with a DRef that
// names the register their result will be in. Only Sync, DebugGet, DebugSet, the copies and
// MakeHostTensor wait; SyncAllAsync and FetchAsync ask, and return a Future.
//
// Vocabulary: a *worker* has a *rank*; worker-0 sits beside the controller and exchanges data with
// the client; everything else travels between workers by *collectives*. A *register* exists on
// every worker under one name, its *DRef*. *Groups* are equal contiguous parts of the ranks.
//
// Errors: what can be seen here is returned by the call itself (kInvalidArgument: a DRef of another
// session, a bad rank). What happens on a worker fails the whole session: its work in flight is
// aborted on all ranks, and every call and every wait returns the *first cause* (the error of the
// rank that failed first, with its rank, command number and function in the message) until Reset().
// Registers written before the failure keep their values. Other sessions notice nothing.
// kFailedPrecondition: the session is closed, or was moved to another Session; or a send has no
// receive yet, or a receive no send (see SendToNextGroup). kDeadlineExceeded: a wait was longer
// than allowed. kUnavailable: the controller or a worker is lost; AwaitWorkers() tells how to go
// on.
//
// Threads: safe; the order of commands of several threads is the order in which their calls take
// the session's lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/operations.h"
#include "runtime/base/reduction.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/client/address.h"
#include "runtime/client/argument.h"
#include "runtime/client/bound_plan.h"
#include "runtime/client/dref.h"
#include "runtime/client/fragment_execution.h"
#include "runtime/client/fragment_traffic.h"
#include "runtime/client/future.h"
#include "runtime/client/shared_tensor.h"
#include "runtime/client/trace.h"
#include "runtime/client/worker_output.h"
#include "runtime/control/value.h"
#include "runtime/plan/layout.h"

namespace lockstep {

namespace control {
class ZmqContext;
}

struct SessionOptions {
  // The controller's endpoint for clients: "ipc:///run/...", "tcp://host:port".
  std::string endpoint;
  // See ControllerAddress.
  std::string key;
  std::string controller_key;
  // Gives the three above.
  void Reach(const ControllerAddress& controller) {
    endpoint = controller.endpoint;
    key = controller.key;
    controller_key = controller.controller_key;
  }
  // Ranks are split into this many equal contiguous groups.
  int num_groups = 1;
  // For people: shown by `lockstep status`.
  std::string name;
  // How long Connect() waits for a controller and for all workers to be ready.
  std::chrono::milliseconds connect_timeout{30'000};
  // How long any later call may wait for workers.
  std::chrono::milliseconds timeout{600'000};
  // The session fails (kDeadlineExceeded, naming rank, command and function) when a worker executes
  // one of its commands for longer; collectives have the cluster's collective_timeout instead.
  // Noticed within a second. 0: a command may take as long as it likes.
  std::chrono::milliseconds command_timeout{0};
  // The registers outlive this client for so long, if it detaches or vanishes, for another to
  // attach. 0: what a vanished client held is freed when its lease is over, or its process is seen
  // to have ended.
  std::chrono::milliseconds keep_for{0};
  // Copies to and from worker-0 are made in its memory where this process can map that; false: they
  // go through its bulk socket all the same.
  bool map_memory = true;
  // Called with what functions of this session print on the workers, line by line: lines of a rank
  // and stream in order, and before the answer of any call that waits for what printed them. On a
  // thread of the session's own, which may use the session, but not close, detach or destroy it.
  // Null: nothing is sent here; the workers' logs have it in any case. A slow callback holds calls
  // up for a second, and then no more; what it cannot keep up with is dropped, and counted. Workers
  // that are threads of this process print for themselves.
  OutputCallback on_output;
};

// Where a collective takes place and where its result goes.
struct CollectiveOptions {
  // Inside each group instead of over the whole world.
  bool in_group = false;
  // If not empty: these ranks alone take part, in this order. Excludes in_group.
  std::vector<Rank> team = {};
  // Receives the result, on every rank that receives. Without one, those ranks make a new tensor of
  // the right shape.
  DRef destination = {};
};

struct WorkerInfo {
  Rank rank = 0;
  std::string host;
  int pid = 0;
  std::string device;
};

class Session {
 public:
  // Opens a session; waits until all workers are ready. kUnavailable: no controller answers at the
  // endpoint. kPermissionDenied: the controller does not let this key in. kInvalidArgument:
  // num_groups does not divide the workers.
  static StatusOr<Session> Connect(const SessionOptions& options);
  // The same over a given ZeroMQ context: how inproc:// endpoints are reached.
  static StatusOr<Session> Connect(const SessionOptions& options,
                                   std::shared_ptr<control::ZmqContext> context);

  // One that was moved from answers kFailedPrecondition to every call; its facts are 0 or empty.
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  // Closes the session, ignoring errors; resets it before if a send has no receive.
  ~Session();

  SessionId id() const;
  int num_workers() const;
  int num_groups() const;
  // Who has the ranks now, in rank order.
  std::vector<WorkerInfo> workers() const;

  // --- Functions -------------------------------------------------------------------------------

  // Loads a library of the tvm-ffi ABI on every worker. `path` is on the workers' hosts, in one of
  // the directories of their `module_path`; a relative path is looked for in each of them.
  StatusOr<DRef> LoadModule(std::string_view path);
  // A built-in function ("lockstep.cast"; docs/functions.md lists them) or one of a module.
  StatusOr<DRef> GetFunction(std::string_view name);
  StatusOr<DRef> GetFunction(const DRef& module, std::string_view name);

  // Calls `function` on every worker. Arguments: nullptr (none), bool, integers, floats, text,
  // Bytes, DType, Device, Shape, DRef, HostTensor, Value. The DRef names what the function returns.
  // Lists and maps may hold DRefs: Value::List{ref, 1}. kInvalidArgument: a register of another
  // session, or an id that does not say whose it is; a HostTensor whose data does not fit its
  // shape; an unsigned integer beyond int64; too many bytes.
  template <typename... Args>
  StatusOr<DRef> Call(const DRef& function, const Args&... args) {
    client::ArgumentList<sizeof...(Args)> list{client::Argument(args)...};
    return CallWith(function, list);
  }
  // The same for a number of arguments known only at run time.
  StatusOr<DRef> CallWith(const DRef& function, absl::Span<const client::Argument> args);

  // --- Tensors ---------------------------------------------------------------------------------

  // An uninitialised tensor on every worker (or only on `only_rank`).
  StatusOr<DRef> Empty(const Shape& shape, DType dtype, std::optional<Rank> only_rank = {});

  // Copies `from` into worker-0's tensor `to`; element counts and dtypes match. Returns when the
  // data is in place. On one host this is a single memory copy.
  Status CopyToWorker0(const DRef& to, ConstBuffer from);
  // The same into a new tensor that exists on worker-0 only.
  StatusOr<DRef> CopyToWorker0(const Shape& shape, ConstBuffer from);
  StatusOr<DRef> CopyToWorker0(const HostTensor& from);
  // Copies worker-0's tensor to the client; waits for the commands before it. Where no memory is
  // shared, too, a tensor of at most 16 KiB takes one round trip, like a Sync.
  Status CopyFromWorker0(Buffer to, const DRef& from);
  StatusOr<HostTensor> CopyFromWorker0(const DRef& from);

  // A host tensor to be filled, uninitialised. Where this process can map worker-0's memory it is
  // made there, so that worker-0 takes the elements over where they lie: handing it over costs a
  // command, whatever its size. Elsewhere it is in this process's memory, and copied. Waits for the
  // commands before it, to ask worker-0 for the memory. kResourceExhausted: worker-0 has none left
  // for it, or the session none (max_session_bytes); the session goes on.
  StatusOr<SharedTensor> MakeHostTensor(const Shape& shape, DType dtype);
  // Hands it over: the register exists on worker-0 only. `from` is null then; after an error it is
  // as it was. One whose worker-0 was lost since, or of another session, is copied.
  StatusOr<DRef> MoveToWorker0(SharedTensor&& from);
  // The other way round: worker-0's tensor, to be read where it lies, or a copy of it if it cannot
  // (is_lent() tells). Waits for the commands before it. `from` is taken also after an error.
  // Other DRefs of the register name the same elements, as long as nothing else is put into it.
  // Who writes to them hands them back: then it is that register again, and its layout is known no
  // more. Until then it is open what of it commands see, which may have copies in other layouts.
  // After a Reset() it is handed back as a copy.
  StatusOr<SharedTensor> MoveFromWorker0(DRef from);

  // --- Collectives -----------------------------------------------------------------------------
  // Dimension 0 is the one that is dealt out and joined. Rows are dealt out as evenly as possible
  // (EvenPart in runtime/base/shape.h). `root` is a rank of the group or team, or of the world.

  StatusOr<DRef> AllReduce(const DRef& source, Reduction op, const CollectiveOptions& options = {});
  StatusOr<DRef> Reduce(const DRef& source, Reduction op, Rank root = 0,
                        const CollectiveOptions& options = {});
  StatusOr<DRef> Broadcast(const DRef& source, Rank root, const CollectiveOptions& options = {});
  StatusOr<DRef> BroadcastFromWorker0(const DRef& source, const CollectiveOptions& options = {});
  // Hands `source` over, as MoveToWorker0() does: worker-0 keeps the elements where they are, the
  // others copy them from there; so does worker-0 itself if it was taken by MoveFromWorker0().
  // It is as it was after an error of this call, but gone if the broadcast fails on the workers.
  // kInvalidArgument, too: worker-0 is not the first rank of the team, or not of each group.
  StatusOr<DRef> BroadcastFromWorker0(SharedTensor&& source, const CollectiveOptions& options = {});
  StatusOr<DRef> Scatter(const DRef& source, Rank root, const CollectiveOptions& options = {});
  StatusOr<DRef> ScatterFromWorker0(const DRef& source, const CollectiveOptions& options = {});
  // The same of a host tensor: each rank copies its part from where it lies.
  StatusOr<DRef> ScatterFromWorker0(SharedTensor&& source, const CollectiveOptions& options = {});
  StatusOr<DRef> Gather(const DRef& source, Rank root, const CollectiveOptions& options = {});
  StatusOr<DRef> GatherToWorker0(const DRef& source, const CollectiveOptions& options = {});
  StatusOr<DRef> AllGather(const DRef& source, const CollectiveOptions& options = {});
  StatusOr<DRef> ReduceScatter(const DRef& source, Reduction op,
                               const CollectiveOptions& options = {});
  // Part p of rank r's rows becomes part r of rank p's result.
  StatusOr<DRef> AllToAll(const DRef& source, const CollectiveOptions& options = {});
  Status Barrier(const CollectiveOptions& options = {});

  // Worker `from` sends, worker `to` receives; the others do nothing. Of `options` only the
  // destination counts.
  StatusOr<DRef> Transfer(const DRef& source, Rank from, Rank to,
                          const CollectiveOptions& options = {});
  // Each rank sends to the same place in the next group; the last group sends nothing. To be paired
  // with ReceiveFromPreviousGroup, in which the first group receives nothing. The halves are paired
  // in order, and each waits on its rank for the other: until both are issued, kFailedPrecondition
  // from a collective that needs both ends of a pair, and from a call of the thread that issued the
  // one half that would wait for such a rank. The message names the pair; nothing has failed.
  Status SendToNextGroup(const DRef& source);
  StatusOr<DRef> ReceiveFromPreviousGroup(const CollectiveOptions& options = {});
  // Worker-0 sends, `to` receives.
  StatusOr<DRef> SendFromWorker0(const DRef& source, Rank to,
                                 const CollectiveOptions& options = {});

  // --- Layouts ---------------------------------------------------------------------------------
  // How a tensor lies on the workers: which part of it, of a mesh of ranks, each of them holds
  // (runtime/plan/layout.h; docs/plans.md). Where all ranks that have any of it have a GPU, its
  // tiles move between the GPUs, else through host memory.

  // Puts a tensor onto the workers of the layout's mesh, each of which gets its tile. By way of
  // worker-0. kInvalidArgument: shape or dtype are not the layout's, or the data does not fit them.
  StatusOr<DRef> Place(const HostTensor& tensor, const plan::Layout& layout);
  // Hands it over, as MoveToWorker0() does; after an error it is as it was.
  StatusOr<DRef> Place(SharedTensor&& tensor, const plan::Layout& layout);
  // The same for the usual layouts over all workers: Split::kRows and kColumns deal dimension 0 or
  // 1 out as evenly as can be, kNone gives each worker all of it. As Execute() wants its inputs:
  // what is placed so is not moved there again. kInvalidArgument: kAsPlaced; the tensor lacks the
  // dimension.
  StatusOr<DRef> Place(const HostTensor& tensor, fragment::Split split);
  // Brings a tensor back whole; by way of worker-0. kInvalidArgument: nothing has said its layout.
  StatusOr<HostTensor> Collect(const DRef& ref);
  // The same tensor in another layout, in a register of its own: moves what has to move, and
  // combines partial values. `layout` has the tensor's shape and dtype.
  StatusOr<DRef> Reshard(const DRef& ref, const plan::Layout& layout);
  // Says how what a function has made lies on the workers. Nothing is moved; a Reshard() whose
  // tiles have other extents or another dtype fails on the rank that has them. What this client
  // writes into a register (a destination, a copy, DebugSet) has no layout any more; after a
  // function that writes in place, declare it anew. The workers keep it with the register, too: it
  // is refused there to be resharded as another layout.
  Status DeclareLayout(const DRef& ref, const plan::Layout& layout);
  // What was said of it. Waits for the workers, once, if another client has made it (see Find).
  // kInvalidArgument: nothing.
  StatusOr<plan::Layout> LayoutOf(const DRef& ref) const;

  // --- Plans -----------------------------------------------------------------------------------

  // Makes a plan of a program (runtime/plan/program.h; docs/plans.md): lowered once, and bound to
  // these registers, to be executed often. Does not wait: what workers find wrong fails the
  // session. kInvalidArgument: a name that the program does not have, or lacks; a register of
  // another layout than its input, or of another session; a rank that there is not.
  StatusOr<BoundPlan> Bind(const plan::Program& program, const PlanRegisters& registers);

  // --- Fragments -------------------------------------------------------------------------------
  // Pieces of a program that are sent once, and that each worker compiles for its own processor, to
  // run on its part of the data; or names of functions (runtime/fragment/fragment.h;
  // docs/fragments.md).

  // Waits until all workers have compiled it. What is wrong with it is an error of this call, with
  // its place, and the session goes on. kPermissionDenied: the cluster does not let this client;
  // kFailedPrecondition: fragments are not available; kResourceExhausted, kDeadlineExceeded,
  // kInternal: the compiler has reached a limit, or has failed. The name of a function is looked up
  // instead: kNotFound, if a worker has no such function.
  StatusOr<CompiledFragment> Compile(const fragment::Fragment& fragment);
  // Calls it on every worker, with its part of each input; does not wait. Inputs that do not lie as
  // they are wanted are moved first, and what was moved is kept with its DRef for the next call.
  // One DRef for each result: rows, columns, and what is combined, have layouts (Collect, Reshard),
  // and are put together or combined when their value is needed. kInvalidArgument: the call does
  // not fit the fragment's signature (see fragment::PlacedCall), and nothing was sent;
  // kFailedPrecondition: the session was reset since it was compiled. A function has no signature:
  // each output says shape and dtype, which are checked when it has returned; it takes what it
  // likes, and may write to it: what has to be moved for it is a copy of its own.
  StatusOr<std::vector<DRef>> Execute(const CompiledFragment& fragment,
                                      absl::Span<const FragmentInput> inputs,
                                      absl::Span<const FragmentOutput> outputs);
  // The same, and compiles it first, unless that was done since the last reset.
  StatusOr<std::vector<DRef>> Execute(const fragment::Fragment& fragment,
                                      absl::Span<const FragmentInput> inputs,
                                      absl::Span<const FragmentOutput> outputs);

  // How much was moved because inputs did not lie as they were wanted: in a loop whose data stays
  // where it is, nothing.
  FragmentTraffic fragment_traffic() const;

  // --- Waiting and looking ---------------------------------------------------------------------

  // Returns when `rank` (all ranks) has executed everything issued before.
  Status Sync(Rank rank);
  Status SyncAll();
  // The same, which does not wait: the Future is answered when all ranks have come to it. Any
  // number may be under way (future.h). If the session fails meanwhile, all that are not answered
  // yet are answered with the first cause, be it of a command that was issued later.
  StatusOr<Future<void>> SyncAllAsync();
  // Sends what is batched, without waiting. Calls are sent by themselves after a moment.
  Status Flush();
  // The register's value on one rank; tensors by value (small ones: at most 64 MiB).
  StatusOr<Value> DebugGet(const DRef& ref, Rank rank);
  // The same, which does not wait: the value as it is when the commands before are executed. The
  // register may be dropped or written to meanwhile.
  StatusOr<Future<Value>> FetchAsync(const DRef& ref, Rank rank);
  // Replaces the register's value on one rank. `value` is what a call takes as an argument.
  Status DebugSet(const DRef& ref, Rank rank, const Value& value);

  // Makes a failed session usable again. DRefs of commands that were skipped hold no value.
  // Commands before the one that failed are executed to their end, so that all ranks have their
  // results; if nothing has failed, everything in flight ends.
  // kUnavailable while a worker is lost: another one has to take its rank first. kDeadlineExceeded:
  // ranks have not come to it yet, and what is issued waits for them; another Reset() ends what
  // they execute. After any other error the reset may have been done or not: the session stays
  // failed until one returns OK.
  Status Reset();
  // Waits until there is a controller and every rank has a worker that is ready: what to do before
  // a Reset() after a loss. A worker that replaces a lost one has none of its registers; the others
  // keep theirs, also when the controller was started again. kUnavailable names who is missing;
  // kDataLoss: a restarted controller has found nothing of this session.
  Status AwaitWorkers(std::chrono::milliseconds timeout);
  // The ranks that have another worker now than when `ref` was named: what it was given there
  // before is lost, and reading it there fails. (That DebugSet gave it a value since is not seen.)
  StatusOr<std::vector<Rank>> RanksThatLost(const DRef& ref) const;

  // --- Timelines -------------------------------------------------------------------------------

  // From now on all record what they do: all ranks, the controller, and this session (with
  // `lockstep trace`, all but that). There is one trace at a time in a cluster: kFailedPrecondition
  // while another client has one. docs/tracing.md says what it costs.
  Status StartTrace(const TraceOptions& options = {});
  // Ends the recording, which may hold the work of other sessions too, and collects it. Ranks that
  // are lost or do not answer are missing, which the trace says. WriteChromeTrace()
  // (chrome_trace.h) writes it into a file.
  StatusOr<Trace> StopTrace();

  // --- Leaving and coming back -----------------------------------------------------------------

  // Gives the register a name under which another client finds it; it lives until the name is taken
  // back (by a null DRef), is given to another register, or the session ends.
  Status Name(const DRef& ref, std::string_view name);
  // LayoutOf() tells its layout, where the client that made it has. kNotFound if nothing has that
  // name.
  StatusOr<DRef> Find(std::string_view name) const;
  // What Attach() asks for: a secret that gives its holder the session's registers.
  std::string ticket() const;
  // Leaves the session to a client that attaches within `keep_for`; waits for what was issued.
  // Registers without names are freed then. Every later call is kFailedPrecondition.
  // kFailedPrecondition: the session was opened without keep_for, or has sent what it does not
  // receive (see SendToNextGroup).
  Status Detach();
  // Takes over a session that has no client (any more): one that was detached, or whose client is
  // silent for longer than its lease; then it has failed, and works again after Reset(). Of
  // `options`, num_groups, command_timeout and keep_for stay as they were. kFailedPrecondition: its
  // client is still there; kPermissionDenied: not its ticket; kDataLoss: it has ended.
  static StatusOr<Session> Attach(const SessionOptions& options, std::string_view ticket);
  static StatusOr<Session> Attach(const SessionOptions& options, std::string_view ticket,
                                  std::shared_ptr<control::ZmqContext> context);

  // Frees all registers on all workers. Every later call is kFailedPrecondition.
  // kFailedPrecondition: it has sent what it does not receive, or the other way round, and stays
  // open; see SendToNextGroup.
  Status Close();

 private:
  struct Parts;
  explicit Session(std::unique_ptr<Parts> parts);
  // Attaches if there is a ticket.
  static StatusOr<Session> Open(const SessionOptions& options, std::string_view ticket,
                                std::shared_ptr<control::ZmqContext> context);

  bool IsMovedFrom() const { return parts_ == nullptr; }
  // kFailedPrecondition if it was moved from.
  Status CheckHeld() const {
    if (!IsMovedFrom()) [[likely]]
      return OkStatus();
    return MovedFrom();
  }
  static Status MovedFrom();

  std::unique_ptr<Parts> parts_;
};

}  // namespace lockstep
