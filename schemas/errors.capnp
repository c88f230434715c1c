@0xa83d1f5c0e6b7924;
# How a failure crosses the wire.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("lockstep::wire");

struct Error {
  code @0 :UInt16;
  # absl::StatusCode (the canonical codes of gRPC). Never 0 (OK).
  rank @1 :Int32 = -1;
  # The worker it happened on; -1: the controller.
  session @2 :UInt32;
  command @3 :UInt64;
  # The number of the failing command within its session, counted from 1; 0: no command.
  function @4 :Text;
  # The function or operation that failed: "lockstep.fail", "allreduce"; empty if none.
  message @5 :Text;
  # What was expected, what came, and what to do.
  stack @6 :Text;
  # The remote stack as the function's library gave it; empty if it gave none.
}
