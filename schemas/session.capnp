@0x9f24e8b35d07c1a6;
# What clients and the controller say to each other: sessions, batches, answers, administration.

using Cxx = import "/capnp/c++.capnp";
using E = import "errors.capnp";
using F = import "fragment_call.capnp";
using M = import "membership.capnp";
using T = import "trace.capnp";
$Cxx.namespace("lockstep::wire");

struct OpenSession {
  # A client's first message. Answered when all workers are ready.
  minVersion @0 :UInt32;
  maxVersion @1 :UInt32;
  build @2 :Text;
  name @3 :Text;
  # For people: the client program.
  host @4 :M.Host;
  pid @5 :Int32;
  numGroups @6 :UInt32 = 1;
  # Must divide the number of workers.
  timeoutMillis @7 :UInt64;
  # How long the controller may wait for workers before it refuses.
  commandTimeoutMillis @8 :UInt64;
  # The session fails when a worker executes one of its commands, other than a collective, for longer.
  # 0: never.
  keepMillis @9 :UInt64;
  # See SessionRecord.
  bulkKey @10 :Text;
  # See SessionRecord.
  forwardOutput @11 :Bool;
  # See SessionRecord.
}

struct NameRegister {
  # Gives a register a name, or takes one back. Answered when all workers know it.
  session @0 :UInt32;
  request @1 :UInt64;
  timeoutMillis @2 :UInt64;
  name @3 :M.NamedRegister;
  nextCommand @4 :UInt64;
  # Of the client: if the controller has not got all commands before, the session fails, and so does this.
  # 0: it is not asked.
}

struct DetachSession {
  # The client leaves; the session stays for `keepMillis` of its record. Answered at once.
  session @0 :UInt32;
  request @1 :UInt64;
}

struct AttachSession {
  # To a session that has no client (any more). Answered with SessionOpened, and SessionFailed if it has
  # failed.
  minVersion @0 :UInt32;
  maxVersion @1 :UInt32;
  build @2 :Text;
  session @3 :UInt32;
  token @4 :Text;
  name @5 :Text;
  host @6 :M.Host;
  pid @7 :Int32;
  timeoutMillis @8 :UInt64;
  bulkKey @9 :Text;
  # See SessionRecord.
  forwardOutput @10 :Bool;
  # The new client's own wish: that of the one before does not count any more.
}

struct ResumeSession {
  # To a controller that was started after the one that opened the session. Answered with SessionOpened
  # when all workers are ready, and then with SessionFailed: what was under way is lost. Sent and received
  # bytes are counted from 0 again.
  minVersion @0 :UInt32;
  maxVersion @1 :UInt32;
  build @2 :Text;
  session @3 :UInt32;
  token @4 :Text;
  generation @5 :UInt32;
  nextCommand @6 :UInt64;
  # The number of the first command that the client has not sent.
  timeoutMillis @7 :UInt64;
  clientNumber @8 :UInt32 = 1;
  # See SessionRecord.
  name @9 :Text;
  host @10 :M.Host;
  pid @11 :Int32;
  # Who that client is: the workers may not have been told yet that it has attached.
  bulkKey @12 :Text;
  # Its own, for the same reason.
  forwardOutput @13 :Bool;
  # The same.
}

struct SessionOpened {
  # Answers openSession, resumeSession and attachSession.
  session @0 :UInt32;
  token @1 :Text;
  # See SessionRecord.
  version @2 :UInt32;
  workers @3 :List(M.Peer);
  controller @4 :UInt64;
  # The epoch in which the controller was started.
  leaseMillis @5 :UInt32;
  # The session ends if the client is silent for this long.
  flowWindowBytes @6 :UInt64;
  # Most bytes of bodies that may be sent and not yet Consumed. A session of a client that does not keep
  # to it fails for good: at two of the largest batches and 8 MiB more nothing is sent on.
  cluster @7 :Text;
  maxBatchBytes @8 :UInt64;
  # Largest body that is accepted.
  record @9 :M.SessionRecord;
  # As it goes on; `consumedBytes` is what was sent on so far, consumed or not (see underWayBytes).
  replaced @10 :List(Replacement);
  # See WorkersReplaced. Here as well, because a client that attaches asks at once what was lost.
  underWayBytes @11 :UInt64;
  # Of the record's `consumedBytes`: what the slowest worker has yet to consume. It takes room in the
  # window of a client that attaches, until Credit says that it is consumed.
  ringAddress @12 :Text;
  # Where a client of the controller's host gets memory for its messages; empty: they go by socket.
  ringNonce @13 :Text;
  # To be said there.
}

struct Batch {
  # Followed by a frame with the body (see control.capnp).
  session @0 :UInt32;
  generation @1 :UInt32;
  # One that has not begun fails the session: the client takes a reset for done that was lost or refused.
  firstCommand @2 :UInt64;
  # From 1; see Envelope.
  request @3 :UInt64;
  # 0: it is not answered.
  answerFrom @4 :Int32 = -1;
  # The rank that answers; -1: all.
  timeoutMillis @5 :UInt64;
  # The controller answers in the workers' place when this has passed, naming those that are late.
  commandCount @6 :UInt32;
  # How many commands the body has, at least 1. The next batch begins with firstCommand + commandCount:
  # after a gap (a batch was lost on its way) the session fails until a reset says where it goes on.
  registerGenerations @7 :UInt32;
  # See SessionRecord.
  waitedNanos @8 :UInt64;
  # How long its first command had been in the client when it was sent, for metrics.
  copiedTo @9 :Copies;
  copiedFrom @10 :Copies;
  # What the client has copied into and out of worker-0's memory, and out of answers (TensorLocation.bytes),
  # since its last batch, for metrics; null: nothing. Only the client sees it. Bulk copies by socket do not
  # count: the worker tells of them.
}

struct Copies {
  operations @0 :UInt64;
  bytes @1 :UInt64;
  nanos @2 :UInt64;
}

struct CloseSession {
  # What was sent before is executed; then all is freed, and the request answered. Until then keep-alives
  # are answered, and the client's silence aborts the work that is left.
  session @0 :UInt32;
  request @1 :UInt64;
  timeoutMillis @2 :UInt64;
  # When this has passed, the work that is left is aborted and the request answered with an error.
  nextCommand @3 :UInt64;
  # As in NameRegister: the answer says what was lost before.
}

struct ResetSession {
  session @0 :UInt32;
  generation @1 :UInt32;
  # The new generation: the old one + 1, or some more where resets before it were not answered.
  request @2 :UInt64;
  timeoutMillis @3 :UInt64;
  nextCommand @4 :UInt64;
  # Number of the first command of the new generation: what was lost before is not missed any more. 0:
  # nothing was.
  sentBytes @5 :UInt64;
  # FlowCost of all bodies that the client has sent, those that were lost included.
}

struct AwaitWorkers {
  # Answered when all workers are ready: lost ones have been replaced, or have not by then.
  session @0 :UInt32;
  request @1 :UInt64;
  timeoutMillis @2 :UInt64;
}

struct KeepAlive {
  # From a client: renews the session's lease, and is answered in kind. Both count what they have said: a
  # connection that broke and came back by itself has lost what was on its way.
  session @0 :UInt32;
  sent @1 :UInt64;
  # Messages that the sender has sent in this session, since it was opened, resumed or attached to; keep-
  # alives, refusals, and what opens, resumes or attaches do not count.
  missing @2 :Bool;
  # From the controller: some of the client's have not arrived.
  tellAgain @3 :Bool;
  # From the client: some of the controller's have not arrived. What stands (failure, credit, replaced
  # workers) is told once more; answers are not.
}

struct OutputTaken {
  # From a client that wants output: how far it has come with it. What is told and not taken is bounded
  # (4 MiB); beyond that lines are dropped, and counted.
  session @0 :UInt32;
  position @1 :UInt64;
  # Of the last SessionOutput that it has dealt with.
}

struct ListRegisters {
  request @0 :UInt64;
  rank @1 :Int32 = -1;
  # Of this one alone; -1: of all.
  session @2 :UInt32;
  # Of this one alone; 0: of all.
  most @3 :UInt32;
  # Registers that each rank tells of, over all sessions. The controller may lower it.
}

struct EndSession {
  # Ends a session, whose client and work may be anything: its work is aborted, and its client told. From an
  # operator, or a client with the key that the session was opened with. Answered at once with an Answer.
  session @0 :UInt32;
  request @1 :UInt64;
  reason @2 :Text;
  # For the session's client, at most 255 bytes.
}

struct CompileFragment {
  # Grants a fragment to the session: has every worker compile it for its processor, or find it. Followed by a frame
  # with its source. Answered when all workers can execute it, with a FragmentLoaded of each as the body; an error is the
  # request's alone, and the session goes on. From the roles that the controller's setting `fragments` names.
  session @0 :UInt32;
  request @1 :UInt64;
  timeoutMillis @2 :UInt64;
  nextCommand @3 :UInt64;
  # As in NameRegister.
  kind @4 :F.FragmentKind;
  name @5 :Text;
  # See FragmentSource, like the next.
  entry @6 :Text;
}

struct ClientMessage {
  union {
    openSession @0 :OpenSession;
    batch @1 :Batch;
    closeSession @2 :CloseSession;
    resetSession @3 :ResetSession;
    keepAlive @4 :KeepAlive;
    status @5 :UInt64;
    # A request number. Answered with ClusterStatus; needs no session.
    shutdown @6 :Text;
    # Stops the whole cluster; the text says why. Needs no session.
    explain @7 :UInt64;
    # As `status`, but the workers are asked first what they are doing, and for their stacks.
    awaitWorkers @8 :AwaitWorkers;
    resumeSession @9 :ResumeSession;
    nameRegister @10 :NameRegister;
    detachSession @11 :DetachSession;
    attachSession @12 :AttachSession;
    outputTaken @13 :OutputTaken;
    trace @14 :T.TraceRequest;
    # Needs no session.
    listRegisters @15 :ListRegisters;
    # Answered with RegisterListing; needs no session.
    endSession @16 :EndSession;
    # Needs no session of the sender's.
    compileFragment @17 :CompileFragment;
  }
}

struct RankRegisters {
  rank @0 :Int32;
  held @1 :M.HeldRegisters;
  # Null if it has not answered.
  why @2 :Text;
  # ... because it is lost, not ready, or silent; for people.
}

struct RegisterListing {
  request @0 :UInt64;
  cluster @1 :Text;
  ranks @2 :List(RankRegisters);
  # Those that were asked for, in rank order.
}

struct Answer {
  # One per request, gathered from all workers that were asked.
  session @0 :UInt32;
  request @1 :UInt64;
  error @2 :E.Error;
  # The first cause if anything failed, else null. A second frame, if any, is the one worker's body.
}

struct SessionFailed {
  # Sent at once when a session's work fails; every later call reports it until the reset.
  session @0 :UInt32;
  generation @1 :UInt32;
  error @2 :E.Error;
}

struct Credit {
  # Flow control: what the slowest worker has consumed of this session, cumulative.
  session @0 :UInt32;
  consumedBytes @1 :UInt64;
}

struct WorkerStatus {
  peer @0 :M.Peer;
  state @1 :State;
  backend @2 :Text;
  activity @3 :M.Activity;
  # As its last heartbeat told it, or its report; of a lost worker: what it was doing last.
  heartbeatAgeMillis @4 :UInt64;
  reason @5 :Text;
  # Why it is lost.
  stuck @6 :Bool;
  # It lives, but has been executing one command of its own for longer than `stuck_after`, and for more than
  # twice `longestMillis`.
  report @7 :M.Report;
  # Only in the answer to `explain`; null if it has not answered.
  connection @8 :Text;
  # How the backend was chosen; of one that is joining: why it does not reach the others yet, if so.
  timesLast @9 :UInt64;
  # How often it came last to a collective whose members leave together.
  lateNanos @10 :UInt64;
  # By how much it came after the first then, added up.
  longestMillis @11 :UInt64;
  # The longest that the function which it executes is known to have taken before, on any rank; 0: it is not known.
  mayLive @12 :Bool;
  # It is lost, and nobody has seen its process end.
  byRing @13 :Bool;
  # Commands reach it through memory that it shares with the controller; else by socket.
  byRelay @14 :Bool;
  # By socket, but from another worker.

  enum State {
    missing @0;
    # No worker has joined with this rank yet.
    joining @1;
    ready @2;
    lost @3;
  }
}

struct SessionStatus {
  session @0 :UInt32;
  name @1 :Text;
  host @2 :Text;
  pid @3 :Int32;
  numGroups @4 :UInt32;
  generation @5 :UInt32;
  sentBytes @6 :UInt64;
  consumedBytes @7 :UInt64;
  error @8 :E.Error;
  # The first cause if the session has failed, else null; its message names the ranks that failed alike, too.
  closing @9 :Bool;
  # It was closed, or its client is lost, and some worker has yet to execute that.
  broken @10 :Bool;
  # With an error that no reset mends.
  detached @11 :Bool;
  # It has no client; another may attach, for `keptMillis` more.
  clientLost @12 :Bool;
  # ... because its last one fell silent.
  keptMillis @13 :UInt64;
  ageMillis @14 :UInt64;
  # Since this controller knows it.
  silentMillis @15 :UInt64;
  # Since its client was heard last.
  commands @16 :UInt64;
  # Sent on to the workers so far.
  abortedMillis @17 :Int64 = -1;
  # Since its work was aborted while it is closing; -1: that was not. A rank that executes it still does
  # not give up.
  path @18 :Path;
  # How messages reach its client.

  enum Path {
    socket @0;
    ring @1;
    # Memory that it shares with the controller.
    direct @2;
    # It is in the controller's process.
  }
}

struct ClusterStatus {
  request @0 :UInt64;
  cluster @1 :Text;
  build @2 :Text;
  epoch @3 :UInt64;
  pid @4 :Int32;
  uptimeMillis @5 :UInt64;
  workers @6 :List(WorkerStatus);
  sessions @7 :List(SessionStatus);
  sequence @8 :UInt64;
  # Batches ordered so far.
  metricsEndpoint @9 :Text;
  # Where the controller serves metrics and health; empty: nowhere.
  comparedCollectives @10 :UInt64;
  # Of which it is known who came last.
  replacementHint @11 :Text;
  # How a lost worker is replaced in this cluster, for people; "{rank}" in it is the rank.
}

struct Replacement {
  rank @0 :Int32;
  fromCommand @1 :UInt64;
  # The first command of the session that the rank's present worker was sent. What registers were given
  # before, on this rank, was lost with the worker that had it.
}

struct WorkersReplaced {
  # The cluster is whole again. Sent before anything that the new workers had a part in.
  session @0 :UInt32;
  workers @1 :List(M.Peer);
  # All, in rank order.
  replaced @2 :List(Replacement);
  # All that were since the session was opened, the last of each rank.
}

struct SessionOutput {
  # What functions have printed on one worker, as far as it is known to belong to the session. Comes before
  # the answer to, and the failure of, any command that was executed after they printed it. A second frame,
  # if any, is the worker's: an OutputLines (control.capnp).
  session @0 :UInt32;
  rank @1 :Int32;
  position @2 :UInt64;
  # Grows with every one of them: see OutputTaken.
  dropped @3 :UInt64;
  # Lines of this rank that the controller has dropped before this one, because the client is slow.
}

struct ControllerMessage {
  # The first frame of everything the controller sends to a client.
  union {
    sessionOpened @0 :SessionOpened;
    refused @1 :M.Refusal;
    answer @2 :Answer;
    sessionFailed @3 :SessionFailed;
    credit @4 :Credit;
    clusterStatus @5 :ClusterStatus;
    shutdown @6 :Text;
    # The cluster is going down; the text says why.
    keepAlive @7 :KeepAlive;
    # The controller is alive, and the session too.
    workersReplaced @8 :WorkersReplaced;
    output @9 :SessionOutput;
    trace @10 :T.TraceReply;
    registerListing @11 :RegisterListing;
  }
}
