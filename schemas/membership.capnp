@0xe7c0d1942b8f5a36;
# How workers join a cluster and show that they are alive.

using Cxx = import "/capnp/c++.capnp";
using E = import "errors.capnp";
using P = import "plan.capnp";
using T = import "trace.capnp";
$Cxx.namespace("lockstep::wire");

const protocolVersion :UInt32 = 3;
# Version of everything in schemas/. Peers name the range they speak in their first message; without
# a common version the newcomer is refused. Since version 2 every message begins with a tag
# (protocol.capnp). Since version 3 a welcome, and the answer of a complete exchange, have a second frame, which is
# made once for all workers: workers of older releases are refused. A field named `obsolete...` is neither written
# nor read any more, and keeps its number.

struct Host {
  name @0 :Text;
  # For people.
  id @1 :Text;
  # Equal for two processes that see the same process ids: boot id and PID namespace of the kernel.
  # Whether they share memory is found by trying.
}

struct Hello {
  # A worker's first message. Said again every half second until it is answered, as a sign of life:
  # the rank of a worker that waits and is silent for long is given to another.
  minVersion @0 :UInt32;
  maxVersion @1 :UInt32;
  build @2 :Text;
  # Lockstep's version, for people.
  cluster @3 :Text;
  # The name of the cluster it wants to join; empty: any.
  rank @4 :Int32 = -1;
  # The rank it asks for; -1: the lowest that is free; -1 - N: the lowest from rank N on.
  host @5 :Host;
  pid @6 :Int32;
  device @7 :Text;
  # "cpu:0", "cuda:3"; "cuda": one that it is yet to choose
  segment @8 :Text;
  # Name of its arena's shared-memory segment; empty if it has none.
  bulkEndpoint @9 :Text;
  # Where it takes bulk copies from clients.
  activitySegment @11 :Text;
  # Name of the shared-memory segment with its activity, where it can be read when the worker has ended;
  # empty if it has none.
  resume @10 :Resume;
  # Of a worker whose controller was lost: what it has kept. Null: it comes with nothing.
  bulkKey @12 :Text;
  # See Peer.
  metricsEndpoint @13 :Text;
  # Where it serves metrics and health, as in "http://127.0.0.1:9464"; empty: nowhere.
  relays @14 :Bool;
  # It can get commands through other workers, and pass them on (runtime/control/tree).
}

struct Resume {
  # A worker's inventory, for the controller that is started again.
  controller @0 :UInt64;
  # The one that was lost, by the epoch in which it was started.
  epoch @1 :UInt64;
  # Of the last welcome.
  worldSize @2 :UInt32;
  sessions @3 :List(SessionRecord);
  # Open here, with their registers.
  workedEpoch @4 :UInt64;
  # That under which it has executed anything last: a worker that has not come as far as that holds what
  # is out of date. (Epochs grow, also from one controller to the next.)
}

struct SessionRecord {
  # What must be known of a session by a process that takes it over: a worker that joins while it is open,
  # or a controller that is started again.
  session @0 :UInt32;
  token @1 :Text;
  # Proves ownership of the session when a client comes back to it. 16 random bytes, in hexadecimal.
  name @2 :Text;
  # For people: the client program.
  clientHost @3 :Host;
  clientPid @4 :Int32;
  # Who owns the session.
  numGroups @5 :UInt32 = 1;
  # Ranks are split into this many equal contiguous groups.
  generation @6 :UInt32;
  nextCommand @7 :UInt64 = 1;
  # From a worker: the one after the last that it has executed well. From the controller: the first that
  # it has not sent on yet.
  consumedBytes @8 :UInt64;
  # As in Consumed: where the count begins.
  commandTimeoutMillis @9 :UInt64;
  failure @10 :E.Error;
  # From the controller: why commands of this generation are not executed; null: they are.
  keepMillis @11 :UInt64;
  # How long it outlives the loss of its client, for another to attach.
  names @12 :List(NamedRegister);
  registerGenerations @13 :UInt32;
  # The highest generation of a register id that was used: where another client goes on.
  clientLost @14 :Bool;
  # Its last client fell silent, and may still write to tensors that it located.
  clientNumber @15 :UInt32 = 1;
  # Its first client is 1, each that attaches the next. Only the last one can resume the session.
  firstCommand @16 :UInt64 = 1;
  # From a worker: the first command that it was sent. It does not have what registers were given before.
  bulkKey @17 :Text;
  # The public key ("lpk_...") that the client shows at workers' bulk endpoints. It made the pair for this
  # session alone.
  forwardOutput @18 :Bool;
  # The client wants to see what its functions print.
  owner @19 :Text;
  # As its key has shown: a line of the allow list, "client lpk_... trainer". Null: it needed no key.
}

struct NamedRegister {
  # A register that another client can find.
  name @0 :Text;
  # At most 255 bytes.
  register @1 :UInt64;
  # Its id; 0: the name is taken back.
  namedBy @2 :UInt64;
  # The command that gave the register its first value.
}

struct Peer {
  rank @0 :Int32;
  host @1 :Host;
  pid @2 :Int32;
  device @3 :Text;
  segment @4 :Text;
  bulkEndpoint @5 :Text;
  bulkKey @6 :Text;
  # The public key ("lpk_...") by which the bulk endpoint is known, where it asks for keys; else empty. The
  # worker made the pair when it was started.
  metricsEndpoint @7 :Text;
  # As in Hello.
}

struct Arenas {
  # What a worker has to know of all others: the second frame of its welcome.
  segments @0 :List(Text);
  # By rank, as in Peer. The world's size is their number.
}

struct Welcome {
  # Sent to every worker when the last one has joined, and again, under a greater epoch (that of the
  # envelope), when a lost one was replaced: the worker gives up all communicators, connects anew with
  # all ranks, and says ready again. It keeps the sessions named here with their registers, opens those
  # that it does not have, and closes all others. The message has a second frame: the Arenas.
  version @0 :UInt32;
  # The protocol version chosen.
  rank @1 :Int32;
  # Stable for the worker's lifetime.
  obsoletePeers @2 :AnyPointer;
  livenessEndpoint @3 :Text;
  heartbeatMillis @4 :UInt32;
  # How often to send a Heartbeat.
  flowWindowBytes @5 :UInt64;
  # A session's window; workers report Consumed every eighth of it.
  collectiveTimeoutMillis @6 :UInt64;
  # How long a rank waits for its peers in one collective.
  cluster @7 :Text;
  watch @8 :UInt64;
  # Names this joining of this worker: said in every heartbeat.
  controller @9 :UInt64;
  # The epoch in which this controller was started: said in every heartbeat.
  sequence @10 :UInt64;
  # Of the last batch that was ordered before: the next one is the first after this welcome.
  sessions @11 :List(SessionRecord);
  forget @12 :Bool;
  # The worker is a newcomer to these sessions: what it may have kept of them is out of date, and is to be
  # dropped first.
  communicator @13 :Text = "auto";
  # Which backend connects the ranks: "auto" (what each pair can do), or the name of one.
  controllerHost @14 :Host;
  # Of the controller: a worker of the same host reads the same clock.
  clientEndpoint @15 :Text;
  # Where the controller takes clients: what a client that connects to a worker is told.
  ringAddress @16 :Text;
  # A unix socket of the controller's host, of the abstract kind: a worker that reaches it, and is the same
  # user's, is handed the memory in which the controller writes commands (runtime/control/shm).
  ringNonce @17 :Text;
  # What it says there: it was made for this worker alone, and is good once. Empty: there is no such memory.
  relayTree @18 :RelayTree;
  # Null: commands come by the worker's own connection.
}

struct RelayTree {
  # The tree through which commands and answers go (runtime/control/tree).
  world @0 :UInt64;
  worker @1 :UInt64;
  # Names the worker in it.
  hasChildren @2 :Bool;
  # It is to listen for workers that get commands from it.
  controllerKey @3 :Data;
  # 32 bytes of Ed25519: what the controller says through others is signed with its secret half.
  answerKey @4 :Data;
  # 32 bytes that this worker alone is told: what it says through others has tags made with them.
}

struct Refusal {
  # Why a worker or client may not join, or why a client's message was dropped.
  error @0 :E.Error;
  controller @1 :UInt64;
  # The epoch in which the controller was started. A client that another one opened a session for learns
  # from it that it has to resume the session.
  resume @2 :Bool;
  # Answers resumeSession: it cannot be.
}

struct Ready {
  # The worker's communicator stands.
  rank @0 :Int32;
  backend @1 :Text;
  # "shm", "tcp", "shm+tcp"
  epoch @2 :UInt64;
  # Of the welcome that this answers.
  why @3 :Text;
  # How the backend was chosen, for people.
}

struct Trouble {
  # The ranks do not reach each other yet, and try again.
  rank @0 :Int32;
  epoch @1 :UInt64;
  # As in Ready.
  why @2 :Text;
}

struct Activity {
  # What a worker is doing.
  received @0 :UInt64;
  # Sequence of the last batch taken from the command socket.
  launched @1 :UInt64;
  # Commands begun.
  completed @2 :UInt64;
  # Commands finished, failed or skipped.
  kind @3 :Kind;
  session @4 :UInt32;
  # Of what is executed, like the rest; without meaning for `none`.
  command @5 :UInt64;
  what @6 :Text;
  # The function or collective, for people.
  sinceMillis @7 :UInt64;
  # How long it has been executed. Long, and the kind is `command`: a stuck worker, or a slow function.
  firstRank @8 :Int32;
  lastRank @9 :Int32 = 0x7fffffff;
  # A collective is one of some of these ranks.
  registers @10 :UInt64;
  # That have a value, over all sessions.
  tensorBytes @11 :UInt64;
  # Of the tensors in them.
  collectives @12 :UInt64;
  # Since its start, like the next two: those that it has finished, ...
  busBytes @13 :UInt64;
  # ... what they carried over its bus, by nccl-tests' formulas, ...
  collectiveNanos @14 :UInt64;
  # ... and how long it was in them, waiting for peers included.
  place @15 :Text;
  # Of a plan's step: its line in the program.

  enum Kind {
    none @0;
    # It waits for commands.
    command @1;
    # Something of its own.
    collective @2;
    # It works with its peers, and may be waiting for them.
  }
}

struct Heartbeat {
  # On the liveness socket, in both directions.
  rank @0 :Int32;
  # The sender; -1: the controller.
  controller @1 :UInt64;
  # The epoch in which the controller was started that welcomed the sender, or that the sender is. One
  # of another controller counts for nothing; this one answers with its own, by which a worker learns
  # that its controller was replaced.
  activity @2 :Activity;
  # The sender's; null from the controller.
  watch @3 :UInt64;
  # The worker's, from its welcome. One that the controller has given up, and that lives after all, is
  # dismissed.
  broken @4 :UInt64;
  # From the controller: the last of LivenessMessage.broken, for those that have not heard it.
  collectives @5 :List(CollectiveTime);
  # From a worker: collectives that it has finished since its last heartbeat, at most 64. When there were
  # more, every rank leaves out the same, as far as it can.
}

struct CollectiveTime {
  # How long a worker was in a collective that all members leave together (allreduce, allgather,
  # reduceScatter, allToAll, barrier). Compared with the others' it tells who came when.
  session @0 :UInt32;
  generation @1 :UInt32;
  command @2 :UInt64;
  first @3 :Int32;
  # Session, generation, command, and the lowest of its ranks: the same for all of its members, and no
  # other.
  ranks @4 :UInt16;
  # How many there are.
  kind @5 :UInt16;
  # A CollectiveKind (control.capnp).
  nanos @6 :UInt64;
}

struct Report {
  # A worker's answer to a probe.
  probe @0 :UInt64;
  rank @1 :Int32;
  controller @2 :UInt64;
  # As in Heartbeat.
  watch @6 :UInt64;
  # The same.
  activity @3 :Activity;
  stack @4 :List(Text);
  # Of the thread that executes commands, innermost frame first. Empty if it executes nothing.
  noStack @5 :Text;
  # Why there is none although it executes something.
}

struct AskRegisters {
  # From the controller: what do your registers hold? Answered with HeldRegisters of the same number.
  probe @0 :UInt64;
  rank @1 :Int32 = -1;
  # Only this one answers; -1: all.
  session @2 :UInt32;
  # Only of this one; 0: of all.
  most @3 :UInt32;
  # Registers to tell of, over all sessions: those that hold most bytes.
}

struct HeldLayout {
  # How a tensor lies on the workers: the Layout (plan.capnp) of its register, for people.
  dtype @0 :Text;
  shape @1 :List(Int64);
  # Of the whole tensor.
  axes @2 :List(P.Mesh.Axis);
  ranks @3 :List(Int32);
  # Those of its mesh, in row-major order.
  placements @4 :List(Text);
  # For each axis: "replicate", "shard(0)", "partial(sum)", ...
}

struct HeldRegister {
  # What one holds. What is in it is not told: a client that may look at a cluster may not read its data.
  register @0 :UInt64;
  # Its id.
  name @1 :Text;
  # If it has one, at most 255 bytes.
  type @2 :Text;
  # "tensor", "int64", "text", "function", ...
  bytes @3 :UInt64;
  dtype @4 :Text;
  shape @5 :List(Int64);
  device @6 :Text;
  # Of a tensor; else empty.
  detail @7 :Text;
  # Which function or module it is, how many items are in it; at most 255 bytes.
  layout @8 :UInt32;
  # How it lies, if that is known: 1 for the first of `layouts`, and so on; else 0.
  layoutLeftOut @9 :Bool;
  # It is known, and not told: the layouts of the answer name too many ranks already.
}

struct SessionHoldings {
  # What a session's registers hold on one worker.
  session @0 :UInt32;
  registers @1 :UInt64;
  # That have a value, also those that are not listed.
  bytes @2 :UInt64;
  # Of all of them.
  listed @3 :List(HeldRegister);
  # By id.
  layouts @4 :List(HeldLayout);
  # Of those that are listed, each once.
}

struct HeldRegisters {
  # A worker's answer. It is the executing thread that tells, between two commands.
  probe @0 :UInt64;
  rank @1 :Int32;
  controller @2 :UInt64;
  # As in Heartbeat.
  watch @3 :UInt64;
  # The same.
  activity @4 :Activity;
  # What it was doing when it was asked.
  busy @5 :Bool;
  # That did not end in time: the rest is not told.
  sessions @6 :List(SessionHoldings);
  # By id.
}

struct Abort {
  # The session has failed. What comes before the failing command is still executed on every worker,
  # so that its results are the same everywhere; the rest ends now.
  session @0 :UInt32;
  generation @1 :UInt32;
  # Ignored if the session has moved on to a later one.
  cause @2 :E.Error;
  fromCommand @3 :UInt64;
  # The failing command: this one and all later ones are not executed, and ended if they are under
  # way. 0: all, whatever their number. May come again with a smaller number: a worker that was
  # behind has failed earlier in the program.
}

struct Exchange {
  # How ranks tell each other where they can be reached, before they can talk. A worker has one exchange
  # at a time; it says it again until it is answered.
  rank @0 :Int32;
  controller @1 :UInt64;
  # As in Heartbeat.
  watch @2 :UInt64;
  # The same.
  epoch @3 :UInt64;
  # The world's.
  number @4 :UInt64;
  # Counts this worker's exchanges; a greater one gives up the last.
  key @5 :UInt64;
  # Members of one exchange name the same key and the same members.
  members @6 :List(Int32);
  # Ranks; empty: the worker gives up its last exchange, and begins none.
  offers @7 :List(Data);
  # For each member, or one for all.
}

struct Exchanged {
  # From the controller. While no member is missing, the message has a second frame: the OfferList.
  number @0 :UInt64;
  # The worker's.
  obsoleteAnswers @1 :AnyPointer;
  missing @2 :List(Int32);
  # Members that have not offered anything yet.
}

struct OfferList {
  # Where each member has one offer for all, this is the same for all, and made once.
  offers @0 :List(Data);
  # What each member has offered to this one.
}

struct LivenessMessage {
  union {
    heartbeat @0 :Heartbeat;
    abort @1 :Abort;
    probe @2 :UInt64;
    # From the controller: what are you doing? Answered with a report of the same number.
    report @3 :Report;
    dismissed @4 :Text;
    # From the controller: you are not counted on any more, for this reason; end.
    broken @5 :UInt64;
    # From the controller: the world of this epoch, and of all before it, has lost a worker. A worker
    # must not wait for it any more while it connects; there will be another welcome.
    exchange @6 :Exchange;
    exchanged @7 :Exchanged;
    trace @8 :T.TraceOrder;
    askRegisters @9 :AskRegisters;
    heldRegisters @10 :HeldRegisters;
  }
}
