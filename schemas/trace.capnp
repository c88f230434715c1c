@0xb52f0c7d94e1a683;
# A timeline of all ranks: who asks for it, who records, what was recorded, and how clocks compare
# (docs/tracing.md).
#
# Times are nanoseconds of the steady clock of the process that tells them.

using Cxx = import "/capnp/c++.capnp";
using E = import "errors.capnp";
$Cxx.namespace("lockstep::wire");

const mostTraceEvents :UInt32 = 262144;
# That one thread may be asked to keep.

struct ClockAnswer {
  # What a clock is compared by, as NTP does (RFC 5905, section 8): who asks says `asked`; who is asked adds the rest.
  asked @0 :Int64;
  received @1 :Int64;
  answered @2 :Int64;
}

struct FetchTrace {
  # Asks for what one thread has recorded. While the trace goes on, only for who records.
  rank @0 :Int32;
  # -1: the controller.
  thread @1 :UInt16;
  from @2 :UInt64;
  # The first event that is wanted, by number; TraceEvents tells the next.
}

struct TraceRequest {
  # From a client. There is one trace at a time in a cluster, and it belongs to the connection that began it: when that is
  # silent for longer than a session's lease, the trace is given up.
  request @0 :UInt64;
  # Each is answered with a TraceReply of this number, fetches by the process that is asked.
  trace @1 :UInt64;
  # From the answer to `start`; 0 in `start` and `clock`.
  union {
    start @2 :UInt32;
    # All workers and the controller record from now on, and each thread keeps its last so many events: at most
    # mostTraceEvents.
    stop @3 :Void;
    # No process records any more. What was recorded is kept for fetching.
    fetch @4 :FetchTrace;
    renew @5 :Void;
    # The client is still there.
    end @6 :Void;
    # The trace is over: what was recorded is forgotten.
    clock @7 :Int64;
    # The client's time: answered with the controller's. Needs no trace.
  }
}

struct TraceReply {
  request @0 :UInt64;
  trace @1 :UInt64;
  error @2 :E.Error;
  # Null: it went well. Of a fetch: why there is nothing from that rank.
  leaseMillis @3 :UInt32;
  # Answers `start`: how long the client may be silent, ...
  workers @4 :UInt32;
  # ... and how many ranks there are.
  clock @5 :ClockAnswer;
  # Answers `clock`. A fetch is answered with a second frame: TraceEvents.
}

struct TraceOrder {
  # On the liveness socket, in both directions.
  rank @0 :Int32;
  controller @1 :UInt64;
  watch @2 :UInt64;
  # From a worker: as in Heartbeat.
  trace @3 :UInt64;
  request @4 :UInt64;
  # Of a fetch, and its answer: the client's.
  union {
    start @5 :UInt32;
    stop @6 :Void;
    fetch @7 :FetchTrace;
    end @8 :Void;
    # From the controller, as in TraceRequest.
    fetched @9 :Text;
    # From a worker. Why there is nothing; empty: a second frame has TraceEvents, which the controller passes on as it is.
    clock @10 :ClockAnswer;
    # From a worker, and back.
  }
}

struct ClockSample {
  # How the clock of the process that says so compares with the controller's.
  at @0 :Int64;
  # By its own clock: when.
  offset @1 :Int64;
  # What to add to get the controller's time, ...
  uncertainty @2 :Int64;
  # ... and how far off that may be: half of the round trip.
}

struct TraceEvents {
  # What one thread has recorded: some of it, oldest first.
  rank @0 :Int32;
  # -1: the controller.
  hostName @1 :Text;
  hostId @2 :Text;
  # As in Host (membership.capnp).
  pid @3 :Int32;
  clocks @4 :List(ClockSample);
  # One when the recording began, and one when it ended, as far as there was an answer.
  threads @5 :UInt16;
  # How many threads of this process record.
  thread @6 :UInt16;
  threadName @7 :Text;
  lost @8 :UInt64;
  # Older ones that had to make room.
  next @9 :UInt64;
  # From where the rest is to be asked for; 0: there is none.
  names @10 :List(Text);
  # That events name by their place here; the first is empty.
  events @11 :List(TraceEvent);
}

struct TraceEvent {
  begin @0 :Int64;
  nanos @1 :UInt64;
  # How long it took; 0: it is a moment.
  command @2 :UInt64;
  # The session's number of the command; of a batch: of its first one. 0: it is about none.
  bytes @3 :UInt64;
  session @4 :UInt32;
  kind @5 :UInt16;
  # runtime/trace/event.h.
  code @6 :UInt16;
  # How it failed (a StatusCode); 0: it did not.
  name @7 :UInt32;
  backend @8 :UInt32;
  # Of a collective. Both by their place in `names`.
  first @9 :Int32;
  ranks @10 :UInt16;
  # Of a collective: how many ranks take part, and the lowest of them.
  unfinished @11 :Bool;
  # It was still going on when the recording ended.
  commands @12 :UInt32;
  # Of a batch: how many.
  step @13 :UInt32;
  # Of a plan's command: which of its rank's steps, from 1; 0: none.
  lane @14 :UInt16;
  # Of a step: 1: it went on beside those of lane 0.
}
