@0xd95b2c3f7a184e60;
# Commands, and the batches they travel in.
#
# A client encodes commands into the *body* of a batch: one Cap'n Proto message per command, each in
# the standard stream framing, back to back in a single frame. The controller gives the batch its
# place in the one total order over all sessions, puts an Envelope in front, and sends the same two
# frames to every worker; it never decodes or copies the body.

using Cxx = import "/capnp/c++.capnp";
using V = import "values.capnp";
using E = import "errors.capnp";
using F = import "fragment_call.capnp";
using M = import "membership.capnp";
using P = import "plan.capnp";
$Cxx.namespace("lockstep::wire");

using RegisterId = UInt64;
# generation << 32 | index. The client chooses the index from its own free list; the generation grows
# each time an index is used again. 0 names nothing.

enum CollectiveKind {
  allReduce @0;
  reduce @1;
  broadcast @2;
  allGather @3;
  gather @4;
  reduceScatter @5;
  scatter @6;
  allToAll @7;
  barrier @8;
  transfer @9;
  # From the worker `root` to the worker `peer`.
  sendToNextGroup @10;
  # Each rank to the same place in the next group; the last group sends nothing.
  receiveFromPreviousGroup @11;
  # Each rank from the same place in the previous group; the first group receives nothing.
}

enum ReduceOp {
  # The order is that of lockstep::Reduction.
  sum @0;
  prod @1;
  min @2;
  max @3;
  avg @4;
}

const mostAnswerBytes :UInt32 = 16384;
# Tensors of at most this size come with the answer to `locate`.

enum BytesWish {
  # Whether they do.
  never @0;
  unlessShared @1;
  # If the answer tells no segment: of a client that has mapped the worker's.
  always @2;
}

struct Command {
  # One instruction to the workers. Lives only while its batch is executed; registers are what
  # outlives it.

  onlyRank @0 :Int32 = -1;
  # The one worker that executes it; -1: all. The others skip it (but count it).

  union {
    sync @1 :Void;
    # Answered when every command before it has completed on this worker.

    call :group {
      function @2 :RegisterId;
      # A register that holds a function.
      result @3 :RegisterId;
      # Receives what the function returned; 0: it is dropped.
      args @4 :List(V.Value);
    }

    getFunction :group {
      module @5 :RegisterId;
      # A register that holds a module; 0: the built-in functions.
      name @6 :Text;
      result @7 :RegisterId;
    }

    loadModule :group {
      path @8 :Text;
      # A library on the worker's host, inside one of the directories of its `module_path`.
      result @9 :RegisterId;
    }

    empty :group {
      shape @10 :List(Int64);
      dtype @11 :V.DType;
      result @12 :RegisterId;
      # Receives an uninitialised tensor in the worker's arena.
    }

    collective :group {
      kind @13 :CollectiveKind;
      op @14 :ReduceOp;
      # For allReduce, reduce and reduceScatter.
      source @15 :RegisterId;
      # What this rank contributes; 0 where the kind takes none.
      destination @16 :RegisterId;
      # What receives the result; 0 where nothing is received.
      makeDestination @17 :Bool;
      # True: `destination` is new, and every rank that receives makes a tensor of the right shape.
      # False: it holds a tensor with the right number of elements.
      inGroup @18 :Bool;
      # True: inside each of the session's groups; false: over the whole world.
      root @19 :Int32;
      # Root of the operation: a rank of the group, or of the world without groups.
      peer @20 :Int32;
      # transfer: the receiving worker.
      team @21 :List(Int32);
      # If not empty: the world ranks that take part, in the order that becomes their rank order; the
      # others skip the command. Excludes `inGroup`.
      givesSource @56 :Bool;
      # broadcast with makeDestination: the root's result is the tensor of `source` itself, which has no value any more.
    }

    fetch :group {
      register @22 :RegisterId;
      # Answered with the register's value (a tensor as a HostTensor).
    }

    store :group {
      register @23 :RegisterId;
      value @24 :V.Value;
      # Replaces what the register holds on this worker.
    }

    locate :group {
      register @25 :RegisterId;
      # Answered with a TensorLocation, when every command before it has completed.
      renew @32 :Bool;
      # With a ticket of its own: nothing that comes under the one before is taken in any more.
      bytes @50 :BytesWish;
    }

    release :group {
      registers @26 :List(RegisterId);
      # The kill list: these names are dropped, in failed sessions too.
    }

    openSession @27 :M.SessionRecord;
    # Sent by the controller alone.

    closeSession :group {
      # Frees all registers and communicators of the session. Sent by the controller alone.
      clientLost @28 :Bool;
      # The client did not close it but fell silent: it may still write to tensors that it located,
      # so their memory is not used again while its process lives.
    }

    reset :group {
      generation @29 :UInt32;
      # The session works again, under this generation; registers keep their values. Sent by the
      # controller alone.

      failedFrom @33 :UInt64;
      # What was begun from this command on is given up.
    }

    nameRegister @30 :M.NamedRegister;
    # Sent by the controller alone, like the next.

    adopt @31 :M.SessionRecord;
    # Another client has attached to the session. Of its registers, those with names are kept; the
    # others, which no client can name any more, are freed.

    reshard :group {
      source @34 :RegisterId;
      # On each rank of the mesh of `layouts.from`: its tile of the tensor. Refused by a rank where the
      # register is known to lie by another layout.
      result @35 :RegisterId;
      # Receives the tile in `layouts.to`, on each rank of that mesh, and is known to lie by that.
      layouts @36 :P.LayoutChange;
      forFragment @49 :Bool;
      # It is to be an argument of a fragment: for metrics.
    }

    bind :group {
      plan @37 :RegisterId;
      # Receives the plan, on every rank: also on those that have no part in it.
      binding @38 :P.Binding;
    }

    execute :group {
      bound @39 :RegisterId;
      # A plan that was bound in this generation of the session, and of the world.
      stepByStep @43 :Bool;
      # Also where it could be launched as one graph on GPUs: each step is seen by itself.
    }

    declareLayout :group {
      # How what a register holds lies on the workers. It is known from then on until the register is
      # written anew, or given to a function that may write to it. Nothing on ranks where it holds no value.
      tensor @40 :RegisterId;
      layout @41 :P.Layout;
      # Null: it is not known any more.
    }

    findLayout :group {
      tensor @42 :RegisterId;
      # Answered by the first rank of the layout's mesh with the Layout by which it lies; without a body by
      # all others, and by all if it is not known.
    }

    loadFragment @44 :F.FragmentSource;
    # Sent by the controller alone, and with that the fragment is granted to the session, until its reset. Answered when
    # it is compiled, or cannot be, which is no failure of the session; what comes after it is executed meanwhile. The
    # body of each rank's answer is a FragmentLoaded.

    runFragment :group {
      number @45 :UInt32;
      # Names the call: see runtime/fragment/known_calls.h, by which client and workers count calls alike.
      call @46 :F.NewFragmentCall;
      # Null: that which has this number already.
      arguments @47 :List(V.Value);
      # Of each, a register, which lies as the call says; of a scalar also a bool, int64 or float64.
      results @48 :List(RegisterId);
      # Receive the results, each with its layout if it has one. 0: it is dropped.
    }

    lend :group {
      # Lends the memory of a tensor in the worker's arena to a client on its host, which reads and writes it where it
      # lies until `endLoan`, or a `release` of the loan's name. Until then, or until the client's process has ended, it
      # is used for nothing else, whatever becomes of the register and the session. Answered with a TensorLocation,
      # when every command before it has completed. Without a segment nothing is lent.
      register @51 :RegisterId;
      loan @57 :RegisterId;
      # The loan's name, which no other loan has: a new register, that holds nothing. 0: the register's own, which the
      # client then names nowhere else.
      isNew @52 :Bool;
      # The register gets a new tensor of that dtype and shape, uninitialised; none if nothing is lent.
      dtype @53 :V.DType;
      shape @54 :List(Int64);
    }

    endLoan @55 :RegisterId;
    # The client writes no more to what was lent under that name. Executed as `release` is, whether the session goes on
    # or not.
  }
}

struct Envelope {
  # The first frame of everything that goes to a worker on its command socket.
  epoch @0 :UInt64;
  # The incarnation of the cluster's membership. It is greater than all before it with every start of a
  # controller (Unix time in milliseconds) and with every welcome. Only a welcome changes the worker's.
  sequence @1 :UInt64;
  # Place in the total order over all sessions, without gaps; 0 outside it (welcome, refusal).
  session @2 :UInt32;
  generation @3 :UInt32;
  # Commands of an older generation than the session's are skipped.
  firstCommand @4 :UInt64;
  # Number, within the session, of the first command in the body; 0: the batch is the controller's
  # own, and only such a batch opens, closes or resets a session.
  request @5 :UInt64;
  # Names the answers that the batch asks for; 0: it asks for none. The command that is answered is
  # the last that is not a `release`.
  union {
    batch @6 :Void;
    # The second frame is the body.
    welcome @7 :M.Welcome;
    refused @8 :M.Refusal;
    shutdown @9 :Text;
    # The worker finishes what it executes, releases everything, and exits. The text says why.
    waiting @10 :Void;
    # Answers a hello: the controller is here, and waits for others.
    outOfReach @11 :Text;
    # Answers a hello: the controller cannot connect to the endpoint that the worker offers, and does not
    # count it before it can. The text says what was tried, and what to do.
  }
  clientNanos @12 :UInt64;
  # Of a batch, for metrics, like the next two: how long its first command had been in the client when the
  # client sent it.
  controllerNanos @13 :UInt64;
  # From when the controller took it from its socket until it was sent on.
  sentNanos @14 :UInt64;
  # When that was, by the monotonic clock of the controller's host; of no use on another.
}

struct TensorLocation {
  # Where a register's tensor lies, for a client on the same host that copies it in place.
  segment @0 :Text;
  # The shared-memory segment; empty if the tensor is not in one, or the worker cannot watch the
  # client's process (use the bulk socket).
  offset @1 :UInt64;
  # Bytes from the segment's start.
  dtype @2 :V.DType;
  shape @3 :List(Int64);
  ticket @4 :UInt64;
  # Opens the tensor on the bulk socket (bulk.capnp). Keeps its memory alive until the register is
  # freed or replaced, or the session ends.
  bytes @5 :Data;
  # All of the tensor, as the commands before have left it; null if that was not asked for, or is too much.
  refusal @6 :E.Error;
  # Why `lend` has lent nothing, where there is no memory left for it: no failure of the session.
}

struct Reply {
  # A worker's answer to `sync`, `fetch`, `locate`, `lend`, `findLayout`, or to what the controller sends itself. A
  # second frame, if any, is the answer's body: a message whose root is a Value (fetch), a TensorLocation (locate, lend),
  # a Layout (findLayout) or a FragmentLoaded (loadFragment).
  session @0 :UInt32;
  generation @1 :UInt32;
  request @2 :UInt64;
  error @3 :E.Error;
  # Null if all is well.
}

struct Failure {
  # A command failed. Sent once per session and generation and worker, at once.
  generation @0 :UInt32;
  error @1 :E.Error;
}

struct Consumed {
  # How far a worker has got with a session's bytes: what flow control is made of.
  session @0 :UInt32;
  bytes @1 :UInt64;
  # Bodies executed or skipped since the session was opened, in bytes.
}

struct Output {
  # What functions of a session that wants it have printed here. Sent while they run, and before anything
  # else that is said of the session after it. A second frame is an OutputLines, at most 256 KiB, which the
  # controller passes on unread.
  session @0 :UInt32;
  lines @1 :UInt64;
  # How many that frame has or stands for, for the process that has to drop it.
}

struct OutputLines {
  lines @0 :List(OutputLine);
}

struct OutputLine {
  stream @0 :Stream;
  text @1 :Data;
  # As it was printed, of whatever bytes, without the newline. A line of more than 16 KiB comes in pieces.
  dropped @2 :UInt64;
  # Not 0: it is no line; so many were dropped in this place, because too much was printed.

  enum Stream {
    stdout @0;
    stderr @1;
  }
}

struct WorkerMessage {
  # The first frame of everything a worker sends on its command socket.
  union {
    hello @0 :M.Hello;
    ready @1 :M.Ready;
    reply @2 :Reply;
    failure @3 :Failure;
    consumed @4 :Consumed;
    goodbye @5 :Text;
    # The worker ends, and why. Before the welcome its rank is free again, after it the worker is lost.
    trouble @6 :M.Trouble;
    output @7 :Output;
  }
}
