#include "runtime/client/session.h"

#include <memory>
#include <mutex>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "runtime/client/bulk_copy.h"
#include "runtime/client/call_encoding.h"
#include "runtime/client/cluster_tracer.h"
#include "runtime/client/compiled_fragments.h"
#include "runtime/client/host_tensors.h"
#include "runtime/client/layout_commands.h"
#include "runtime/client/open_question.h"
#include "runtime/client/session_commands.h"
#include "runtime/client/session_core.h"
#include "runtime/client/session_messages.h"
#include "runtime/client/whole_tensors.h"
#include "runtime/control/keys/gate.h"
#include "runtime/control/keys/key.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"

namespace lockstep {
namespace {

void WriteSync(wire::Command::Builder command) { command.setSync(); }

// Asks that rank for what the register holds there.
auto FetchOf(const DRef& ref, Rank rank) {
  return [id = ref.id(), rank](wire::Command::Builder command) {
    command.setOnlyRank(rank);
    command.initFetch().setRegister(id.Packed());
  };
}

Status CheckRegisterOn(const client::SessionCore& core, const DRef& ref, Rank rank) {
  LOCKSTEP_RETURN_IF_ERROR(core.CheckRank(rank));
  return core.CheckOwn(ref, "the register");
}

}  // namespace

// What a Session is made of.
struct Session::Parts {
  std::shared_ptr<client::SessionCore> core;
  std::unique_ptr<client::BulkCopier> bulk;
  std::unique_ptr<client::WholeTensors> tensors;
  std::unique_ptr<client::HostTensors> host_tensors;

  // How the session was reached, for the connection that a trace needs.
  ControllerAddress controller;
  std::shared_ptr<control::ZmqContext> context;
  std::mutex tracer_mutex;
  std::unique_ptr<ClusterTracer> tracer;  // while a timeline is recorded

  client::CompiledFragments fragments;

  // Of a session that may have been moved away.
  static StatusOr<DRef> Issue(const std::unique_ptr<Parts>& parts,
                              const client::CollectiveCall& call,
                              const CollectiveOptions& options) {
    if (parts == nullptr) [[unlikely]]
      return MovedFrom();
    return client::IssueCollective(*parts->core, call, options);
  }
};

StatusOr<Session> Session::Connect(const SessionOptions& options) {
  return Connect(options, control::ZmqContext::Create());
}

StatusOr<Session> Session::Connect(const SessionOptions& options,
                                   std::shared_ptr<control::ZmqContext> context) {
  return Open(options, "", std::move(context));
}

StatusOr<Session> Session::Attach(const SessionOptions& options, std::string_view ticket) {
  return Attach(options, ticket, control::ZmqContext::Create());
}

StatusOr<Session> Session::Attach(const SessionOptions& options, std::string_view ticket,
                                  std::shared_ptr<control::ZmqContext> context) {
  if (ticket.empty()) return InvalidArgument("an empty ticket");
  return Open(options, ticket, std::move(context));
}

StatusOr<Session> Session::Open(const SessionOptions& options, std::string_view ticket,
                                std::shared_ptr<control::ZmqContext> context) {
  auto parts = std::make_unique<Parts>();
  const control::KeyPair bulk_key = control::NewKeyPair();
  client::OpenRequest request{
      options.endpoint,        options.name,     options.num_groups, options.connect_timeout,
      options.command_timeout, options.keep_for, std::string(ticket)};
  LOCKSTEP_ASSIGN_OR_RETURN(request.credentials,
                            control::CredentialsFrom(options.key, options.controller_key));
  request.bulk_key = bulk_key.public_key.Text();
  request.on_output = options.on_output;
  LOCKSTEP_ASSIGN_OR_RETURN(parts->core,
                            client::SessionCore::Open(request, options.timeout, context));
  parts->controller = {options.endpoint, options.key, options.controller_key};
  parts->context = context;
  parts->bulk = std::make_unique<client::BulkCopier>(*parts->core, std::move(context), bulk_key,
                                                     options.map_memory, options.endpoint);
  parts->tensors = std::make_unique<client::WholeTensors>(*parts->core, *parts->bulk);
  parts->host_tensors =
      std::make_unique<client::HostTensors>(*parts->core, *parts->bulk, *parts->tensors);
  return Session(std::move(parts));
}

Session::Session(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Status Session::MovedFrom() {
  return FailedPrecondition(
      "this Session was moved from: its session belongs to the Session that it was moved to");
}

SessionId Session::id() const { return IsMovedFrom() ? SessionId{} : parts_->core->facts().id; }
int Session::num_workers() const { return IsMovedFrom() ? 0 : parts_->core->facts().num_workers; }
int Session::num_groups() const { return IsMovedFrom() ? 0 : parts_->core->facts().num_groups; }
std::vector<WorkerInfo> Session::workers() const {
  std::vector<WorkerInfo> workers;
  if (IsMovedFrom()) return workers;
  for (const client::Peer& peer : parts_->core->Workers()) {
    workers.push_back({peer.rank, peer.host, peer.pid, peer.device});
  }
  return workers;
}

// --- Functions ---------------------------------------------------------------------------------

StatusOr<DRef> Session::LoadModule(std::string_view path) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return client::IssueLoadModule(*parts_->core, path);
}

StatusOr<DRef> Session::GetFunction(std::string_view name) { return GetFunction(DRef(), name); }

StatusOr<DRef> Session::GetFunction(const DRef& module, std::string_view name) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return client::IssueGetFunction(*parts_->core, module, name);
}

StatusOr<DRef> Session::CallWith(const DRef& function,
                                 absl::Span<const client::Argument> arguments) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  client::SessionCore& core = *parts_->core;
  LOCKSTEP_RETURN_IF_ERROR(core.CheckOwn(function, "the function"));
  LOCKSTEP_RETURN_IF_ERROR(client::CheckArguments(core, arguments));
  client::NoteFunctionCall(core, arguments);
  StatusOr<DRef> made = core.IssueNamingBy([&](control::BatchWriter& writer, RegisterId result) {
    return client::WriteCall(writer, function.id(), result, arguments);
  });
  client::NoteFunctionCall(core, arguments);
  if (made.ok()) core.NoteKnownToFunctions(*made);
  return made;
}

// --- Tensors -----------------------------------------------------------------------------------

StatusOr<DRef> Session::Empty(const Shape& shape, DType dtype, std::optional<Rank> only_rank) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return client::IssueEmpty(*parts_->core, shape, dtype, only_rank);
}

Status Session::CopyToWorker0(const DRef& to, ConstBuffer from) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return parts_->tensors->CopyToWorker0(to, from);
}

StatusOr<DRef> Session::CopyToWorker0(const Shape& shape, ConstBuffer from) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return parts_->tensors->CopyToWorker0(shape, from);
}

StatusOr<DRef> Session::CopyToWorker0(const HostTensor& from) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return parts_->tensors->CopyToWorker0(from);
}

Status Session::CopyFromWorker0(Buffer to, const DRef& from) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return parts_->bulk->Read(to, from);
}

StatusOr<HostTensor> Session::CopyFromWorker0(const DRef& from) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return parts_->bulk->Read(from);
}

StatusOr<SharedTensor> Session::MakeHostTensor(const Shape& shape, DType dtype) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return parts_->host_tensors->Make(shape, dtype);
}

StatusOr<DRef> Session::MoveToWorker0(SharedTensor&& from) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return parts_->host_tensors->MoveToWorker0(std::move(from));
}

StatusOr<SharedTensor> Session::MoveFromWorker0(DRef from) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return parts_->host_tensors->MoveFromWorker0(std::move(from));
}

// --- Collectives -------------------------------------------------------------------------------

StatusOr<DRef> Session::AllReduce(const DRef& source, Reduction op,
                                  const CollectiveOptions& options) {
  return Parts::Issue(parts_, {.kind = OperationKind::kAllReduce, .source = source, .op = op},
                      options);
}
StatusOr<DRef> Session::Reduce(const DRef& source, Reduction op, Rank root,
                               const CollectiveOptions& options) {
  return Parts::Issue(
      parts_, {.kind = OperationKind::kReduce, .source = source, .op = op, .root = root}, options);
}
StatusOr<DRef> Session::Broadcast(const DRef& source, Rank root, const CollectiveOptions& options) {
  return Parts::Issue(parts_, {.kind = OperationKind::kBroadcast, .source = source, .root = root},
                      options);
}
StatusOr<DRef> Session::BroadcastFromWorker0(const DRef& source, const CollectiveOptions& options) {
  return Broadcast(source, 0, options);
}
StatusOr<DRef> Session::BroadcastFromWorker0(SharedTensor&& source,
                                             const CollectiveOptions& options) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return parts_->host_tensors->DealOut(OperationKind::kBroadcast, std::move(source), options);
}
StatusOr<DRef> Session::Scatter(const DRef& source, Rank root, const CollectiveOptions& options) {
  return Parts::Issue(parts_, {.kind = OperationKind::kScatter, .source = source, .root = root},
                      options);
}
StatusOr<DRef> Session::ScatterFromWorker0(const DRef& source, const CollectiveOptions& options) {
  return Scatter(source, 0, options);
}
StatusOr<DRef> Session::ScatterFromWorker0(SharedTensor&& source,
                                           const CollectiveOptions& options) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return parts_->host_tensors->DealOut(OperationKind::kScatter, std::move(source), options);
}
StatusOr<DRef> Session::Gather(const DRef& source, Rank root, const CollectiveOptions& options) {
  return Parts::Issue(parts_, {.kind = OperationKind::kGather, .source = source, .root = root},
                      options);
}
StatusOr<DRef> Session::GatherToWorker0(const DRef& source, const CollectiveOptions& options) {
  return Gather(source, 0, options);
}
StatusOr<DRef> Session::AllGather(const DRef& source, const CollectiveOptions& options) {
  return Parts::Issue(parts_, {.kind = OperationKind::kAllGather, .source = source}, options);
}
StatusOr<DRef> Session::ReduceScatter(const DRef& source, Reduction op,
                                      const CollectiveOptions& options) {
  return Parts::Issue(parts_, {.kind = OperationKind::kReduceScatter, .source = source, .op = op},
                      options);
}
StatusOr<DRef> Session::AllToAll(const DRef& source, const CollectiveOptions& options) {
  return Parts::Issue(parts_, {.kind = OperationKind::kAllToAll, .source = source}, options);
}
Status Session::Barrier(const CollectiveOptions& options) {
  return Parts::Issue(
             parts_,
             {.kind = OperationKind::kBarrier, .takes_source = false, .gives_result = false},
             options)
      .status();
}

StatusOr<DRef> Session::Transfer(const DRef& source, Rank from, Rank to,
                                 const CollectiveOptions& options) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  LOCKSTEP_RETURN_IF_ERROR(Annotate(parts_->core->CheckRank(from), "the sender"));
  LOCKSTEP_RETURN_IF_ERROR(Annotate(parts_->core->CheckRank(to), "the receiver"));
  if (from == to) return InvalidArgument("rank ", from, " cannot send to itself");
  return Parts::Issue(
      parts_, {.kind = OperationKind::kTransfer, .source = source, .root = from, .peer = to},
      {.destination = options.destination});
}
Status Session::SendToNextGroup(const DRef& source) {
  return Parts::Issue(
             parts_,
             {.kind = OperationKind::kSendToNextGroup, .source = source, .gives_result = false}, {})
      .status();
}
StatusOr<DRef> Session::ReceiveFromPreviousGroup(const CollectiveOptions& options) {
  return Parts::Issue(parts_,
                      {.kind = OperationKind::kReceiveFromPreviousGroup, .takes_source = false},
                      {.destination = options.destination});
}
StatusOr<DRef> Session::SendFromWorker0(const DRef& source, Rank to,
                                        const CollectiveOptions& options) {
  return Transfer(source, 0, to, options);
}

// --- Layouts -----------------------------------------------------------------------------------

StatusOr<DRef> Session::Place(const HostTensor& tensor, const plan::Layout& layout) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return parts_->tensors->Place(tensor, layout, client::MovedFor::kProgram);
}

StatusOr<DRef> Session::Place(SharedTensor&& tensor, const plan::Layout& layout) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return parts_->host_tensors->Place(std::move(tensor), layout);
}

StatusOr<DRef> Session::Place(const HostTensor& tensor, fragment::Split split) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return parts_->tensors->Place(tensor, split);
}

StatusOr<HostTensor> Session::Collect(const DRef& ref) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return parts_->tensors->Collect(ref);
}

StatusOr<DRef> Session::Reshard(const DRef& ref, const plan::Layout& layout) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return client::IssueReshard(*parts_->core, ref, layout);
}

StatusOr<BoundPlan> Session::Bind(const plan::Program& program, const PlanRegisters& registers) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return BoundPlan::Bind(parts_->core, program, registers);
}

Status Session::DeclareLayout(const DRef& ref, const plan::Layout& layout) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  client::SessionCore& core = *parts_->core;
  LOCKSTEP_RETURN_IF_ERROR(core.CheckOwn(ref, "the tensor"));
  LOCKSTEP_RETURN_IF_ERROR(client::CheckLayout(core, layout, layout.shape(), layout.dtype()));
  return client::IssueDeclareLayout(core, ref, layout);
}

StatusOr<plan::Layout> Session::LayoutOf(const DRef& ref) const {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return client::KnownLayout(*parts_->core, ref);
}

// --- Fragments ---------------------------------------------------------------------------------

StatusOr<CompiledFragment> Session::Compile(const fragment::Fragment& fragment) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return CompiledFragment::Compile(parts_->core, fragment);
}

StatusOr<std::vector<DRef>> Session::Execute(const CompiledFragment& fragment,
                                             absl::Span<const FragmentInput> inputs,
                                             absl::Span<const FragmentOutput> outputs) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return fragment.Execute(
      parts_->core, inputs, outputs, [this](const HostTensor& tensor, const plan::Layout& layout) {
        return parts_->tensors->Place(tensor, layout, client::MovedFor::kFragment);
      });
}

StatusOr<std::vector<DRef>> Session::Execute(const fragment::Fragment& fragment,
                                             absl::Span<const FragmentInput> inputs,
                                             absl::Span<const FragmentOutput> outputs) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  LOCKSTEP_ASSIGN_OR_RETURN(const CompiledFragment compiled,
                            parts_->fragments.CompileOnce(parts_->core, fragment));
  return Execute(compiled, inputs, outputs);
}

FragmentTraffic Session::fragment_traffic() const {
  return IsMovedFrom() ? FragmentTraffic() : parts_->core->fragment_traffic().Get();
}

// --- Waiting and looking -----------------------------------------------------------------------

Status Session::Sync(Rank rank) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  LOCKSTEP_RETURN_IF_ERROR(parts_->core->CheckRank(rank));
  return parts_->core
      ->Ask(rank,
            [&](wire::Command::Builder command) {
              command.setOnlyRank(rank);
              command.setSync();
            })
      .status();
}

Status Session::SyncAll() {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return parts_->core->Ask(-1, WriteSync).status();
}

Status Session::Flush() {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return parts_->core->Flush();
}

StatusOr<Value> Session::DebugGet(const DRef& ref, Rank rank) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  LOCKSTEP_RETURN_IF_ERROR(CheckRegisterOn(*parts_->core, ref, rank));
  LOCKSTEP_ASSIGN_OR_RETURN(const control::Frame body, parts_->core->Ask(rank, FetchOf(ref, rank)));
  return client::ReadFetched(body);
}

StatusOr<Future<void>> Session::SyncAllAsync() {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  LOCKSTEP_ASSIGN_OR_RETURN(auto question, client::OpenQuestion::Pose(parts_->core, -1, WriteSync));
  return Future<void>(std::move(question));
}

StatusOr<Future<Value>> Session::FetchAsync(const DRef& ref, Rank rank) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  LOCKSTEP_RETURN_IF_ERROR(CheckRegisterOn(*parts_->core, ref, rank));
  LOCKSTEP_ASSIGN_OR_RETURN(auto question,
                            client::OpenQuestion::Pose(parts_->core, rank, FetchOf(ref, rank)));
  return Future<Value>(std::move(question));
}

Status Session::DebugSet(const DRef& ref, Rank rank, const Value& value) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  LOCKSTEP_RETURN_IF_ERROR(CheckRegisterOn(*parts_->core, ref, rank));
  LOCKSTEP_RETURN_IF_ERROR(Annotate(client::CheckValue(*parts_->core, value), "the value"));
  LOCKSTEP_RETURN_IF_ERROR(client::CheckPayload(control::PayloadBytes(value)));
  LOCKSTEP_RETURN_IF_ERROR(client::ForgetLayout(*parts_->core, ref));
  const auto store = [&] {
    return parts_->core
        ->Ask(rank,
              [&](wire::Command::Builder command) {
                command.setOnlyRank(rank);
                auto store = command.initStore();
                store.setRegister(ref.id().Packed());
                control::WriteValue(store.initValue(), value);
              })
        .status();
  };
  return rank == 0 ? parts_->bulk->Replace(ref, store) : store();
}

Status Session::Reset() {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return parts_->core->Reset();
}

Status Session::AwaitWorkers(std::chrono::milliseconds timeout) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return parts_->core->AwaitWorkers(timeout);
}

StatusOr<std::vector<Rank>> Session::RanksThatLost(const DRef& ref) const {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  LOCKSTEP_RETURN_IF_ERROR(parts_->core->CheckOwn(ref, "the register"));
  return parts_->core->RanksThatLost(ref);
}

Status Session::Name(const DRef& ref, std::string_view name) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  if (!ref.IsNull()) LOCKSTEP_RETURN_IF_ERROR(parts_->core->CheckOwn(ref, "the register"));
  return parts_->core->Name(ref, std::string(name));
}

StatusOr<DRef> Session::Find(std::string_view name) const {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  DRef ref = parts_->core->FindNamed(std::string(name));
  if (ref.IsNull()) return NotFound("no register of session ", id(), " is named \"", name, "\"");
  return ref;
}

Status Session::StartTrace(const TraceOptions& options) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  std::lock_guard lock(parts_->tracer_mutex);
  if (parts_->tracer != nullptr) return FailedPrecondition("the session has a trace already");
  LOCKSTEP_ASSIGN_OR_RETURN(parts_->tracer,
                            ClusterTracer::Start(parts_->controller, options, parts_->context));
  parts_->core->ring().Start(options.events);
  return OkStatus();
}

StatusOr<Trace> Session::StopTrace() {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  std::lock_guard lock(parts_->tracer_mutex);
  if (parts_->tracer == nullptr) return FailedPrecondition("the session has no trace");
  const std::unique_ptr<ClusterTracer> tracer = std::move(parts_->tracer);
  trace::Ring& own = parts_->core->ring();
  own.Stop();
  const absl::Cleanup forget = [&] { own.Clear(); };
  return tracer->Stop(&own);
}

std::string Session::ticket() const { return IsMovedFrom() ? "" : parts_->core->Ticket(); }

Status Session::Detach() {
  LOCKSTEP_RETURN_IF_ERROR(SyncAll());
  return parts_->bulk->Finish([&] { return parts_->core->Detach(); });
}

Status Session::Close() {
  LOCKSTEP_RETURN_IF_ERROR(CheckHeld());
  return parts_->bulk->Finish([&] { return parts_->core->Close(); });
}

}  // namespace lockstep
