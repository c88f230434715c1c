@0xc4a1e09d72b5f386;
# Bulk copies between a client and worker-0 where they share no memory. A socket of its own, so that
# a copy never delays a command or a heartbeat.

using Cxx = import "/capnp/c++.capnp";
using E = import "errors.capnp";
$Cxx.namespace("lockstep::wire");

struct BulkRequest {
  # A client's message; `write` is followed by a frame with the bytes. Who gets no answer may ask
  # again, under another ticket.
  ticket @0 :UInt64;
  # From the TensorLocation that answered `locate`; valid until the register is freed, replaced or
  # located anew with another ticket, or its session ends. Any number of copies may use it.
  offset @1 :UInt64;
  # Bytes from the tensor's first.
  union {
    write @2 :UInt64;
    # The second frame's bytes, whose checksum (XXH3, 64 bits) this is, go to [offset, offset + size).
    # Answered when they are there; DATA_LOSS: they have another checksum, and nothing was written.
    read @3 :UInt64;
    # Answered with this many bytes from `offset`; 4 MiB at most.
  }
}

struct BulkReply {
  # The worker's answer to each request; one to `read` is followed by a frame with the bytes.
  ticket @0 :UInt64;
  offset @1 :UInt64;
  error @2 :E.Error;
  # Null if all is well.
  checksum @3 :UInt64;
  # Of the second frame.
  commandsCame @4 :Bool;
  # The worker has had commands since its answer before, under this ticket: the copy should leave them room.
}
